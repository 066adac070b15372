// How reads of a file with several copies are shared among the copies, and when that is to change.
//
// A layout for reading names copies by what their servers have to spare (layout/read_choice.h).
// When others come to use a server, long readers would stay there; so once a second renew() looks
// whether what layouts say is still right. When it was clearly wrong for some time
// (Parts::wrong_for) they are recalled, and what is granted then says better. Only their holders
// wait, never longer than for a round trip and the reads under way. A file's layouts are recalled
// less and less often, so that a server which is now busy, now not, does not keep its readers busy.
// Layouts that clients only keep (kept_layouts.h) are recalled as soon as they are wrong: who opens
// the file again would begin with them.
// Of a file with asynchronous duplication that is written, leaders alone are read; who still reads
// when all is duplicated is recalled likewise, and gets the others as well.
//
// Threading: any thread; renew() one at a time. Calls read the metadata store, and wait for nobody.
// Ownership: what Parts refers to outlives it. What is remembered of a file is in its record
// (read_state.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ganesha-fsal/cluster/cluster.h"
#include "ganesha-fsal/files/layout_maps.h"
#include "ganesha-fsal/files/layout_service.h"
#include "layout/candidate.h"
#include "layout/read_choice.h"

namespace weft::mds {

class ReadShares {
 public:
  struct Parts {
    FileTable& files;
    Namespace& names;
    LayoutService& layouts;
    std::function<Reach(std::uint32_t ds_id)> reach;
    // What is known of these, of their loads and room.
    std::function<std::vector<layout::Candidate>(std::span<const std::uint32_t> ds_ids)> candidates;
    std::function<Clock::time_point()> now;
    // After a layout was handed out, until it is looked at for the first time, and then again.
    Clock::duration look_every = std::chrono::seconds(1);
    Clock::duration wrong_for = std::chrono::seconds(3);
  };

  explicit ReadShares(Parts parts) : parts_(std::move(parts)) {}
  ReadShares(const ReadShares&) = delete;
  ReadShares& operator=(const ReadShares&) = delete;

  // Only those are read that are usable, if that is said.
  using Usable = std::function<bool(std::uint32_t ds_id)>;

  // What each copy has to spare for readers. kLayoutTryLater: a stripe has no current copy whose
  // server is here and usable.
  [[nodiscard]] Result<layout::Spares> spares(FileId file, const layout::LayoutMap& map,
                                              const Usable& usable = {}) const;
  // How the file's stripes take turns in a layout of the files type that names `most` servers at
  // most, if every stripe has one. Errors as above.
  [[nodiscard]] Result<layout::ReadTurns> turns(FileId file, const layout::LayoutMap& map,
                                                std::size_t most, const Usable& usable = {}) const;
  // How reads of the file are best shared.
  [[nodiscard]] static layout::ReadParts best_parts(const layout::LayoutMap& map,
                                                    const layout::Spares& spares);
  // A layout for reading, whose grant is recorded, shares reads so, and is to be renewed when that
  // is not right any more.
  void handed_out(FileId file, layout::ReadParts parts);
  // Recalls layouts that were wrong for so long, of a few files at a time. Call a few times a
  // second.
  void renew(Clock::time_point now);

 private:
  [[nodiscard]] bool all_here(const layout::LayoutMap& map) const;
  [[nodiscard]] bool layouts_wrong(FileId file, Clock::time_point now);

  const Parts parts_;
};

}  // namespace weft::mds
