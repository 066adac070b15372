// CB_LAYOUTRECALL through Ganesha's upcalls: what LayoutService asks clients with.
//
// Threading: any thread. The callback runs in Ganesha's general fridge.
#pragma once

#include "ganesha-fsal/fsal/ganesha.h"
#include "ganesha-fsal/layouts/layout_service.h"
#include "layout/layout_map.h"

namespace weft::mds {

class UpcallRecaller final : public Recaller {
 public:
  // Layouts of a file are all of one type, that of its map.
  using TypeOf = std::function<layout::LayoutType(FileId)>;
  UpcallRecaller(std::uint32_t fsid, std::uint64_t store_id, TypeOf type_of)
      : fsid_(fsid), store_id_(store_id), type_of_(std::move(type_of)) {}

  // Exports come and go; their upcall vectors all reach the same cache. One is enough.
  void add(const fsal_up_vector* up_ops);
  void remove(const fsal_up_vector* up_ops);

  void recall(FileId file, ClientId client, std::optional<layout::Access> only,
              std::function<void()> none) override;
  // What Ganesha's cache holds of the file's attributes is no longer true.
  void invalidate_attributes(FileId file);

 private:
  [[nodiscard]] const fsal_up_vector* any();

  const std::uint32_t fsid_;
  const std::uint64_t store_id_;
  const TypeOf type_of_;
  std::mutex mutex_;
  std::vector<const fsal_up_vector*> vectors_;  // guarded by mutex_
};

}  // namespace weft::mds
