// Ganesha's upcalls, by which a metadata store's parts reach the protocol's side: CB_LAYOUTRECALL
// for LayoutService, and that cached attributes are no longer true.
//
// Every export of the store has upcalls of its own, and all reach the same cache. An upcall holds a
// reference to the export it goes through, which is found by its number each time: an export that
// is being removed is never revived. The reference may turn out to be the export's last, and with
// it the store's: what that means for the caller's thread is known by Exports (in_upcall()).
//
// Threading: any thread, also one that Ganesha called for the file in question. The callback of a
// recall runs in a fridge of Ganesha's kind that recalls have to themselves, for all stores.
#pragma once

#include "ganesha-fsal/files/layout_service.h"
#include "ganesha-fsal/glue/ganesha.h"
#include "ganesha-fsal/server/metadata_server.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

class UpcallRecaller final : public Recaller {
 public:
  // Exports come and go; `server` is that of all of them, and outlives this object's calls.
  void add(std::uint16_t export_id, const fsal_up_vector* up_ops, MetadataServer& server);
  // Nothing goes through it any more once this has returned.
  void remove(const fsal_up_vector* up_ops);

  // An export that is being removed may know nothing of the file: then the next one is asked.
  void recall(FileId file, ClientId client, std::optional<layout::Access> only,
              std::function<void()> none) override;
  // CB_RECALL_ANY.
  void recall_unused(ClientId client, std::function<void(bool understood)> answered) override;
  // What Ganesha's cache holds of the file's attributes is no longer true. What it is fetching
  // meanwhile does not count either.
  void invalidate_attributes(FileId file);

  // The threads that send recalls. When the module is loaded, and before it is unloaded.
  static void start_threads();
  static void stop_threads();
  // Whether the calling thread is giving up an upcall's reference to an export.
  [[nodiscard]] static bool in_upcall();

 private:
  struct Upcalls {
    std::uint16_t export_id = 0;
    const fsal_up_vector* ops = nullptr;
    MetadataServer* server = nullptr;
  };
  class Held;
  struct Asked;

  // The first that is there, of those not passed over; empty when there is none.
  [[nodiscard]] Held hold(std::span<const std::uint16_t> passed_over);
  void ask(std::unique_ptr<Asked> asked);
  static void answered(void* argument, state_status_t status);

  Mutex mutex_;
  std::vector<Upcalls> exports_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft::mds
