// One scrub of one file: its copies, which nobody writes, are compared; what differs is told, and
// made equal if it is known which copy is right.
//
//   CopyScrub(parts, file, how).run()
//
// Threading: one thread; it blocks. Ownership: Parts outlive it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "ganesha-fsal/meta/ops/namespace.h"
#include "ganesha-fsal/repair/mend_parts.h"
#include "ganesha-fsal/repair/resync_runner.h"
#include "ganesha-fsal/repair/scrubber.h"

namespace weft::mds {

class CopyScrub {
 public:
  struct Parts {
    Namespace& names;
    DataServers& servers;
    ResyncRunner& jobs;
    // As Repairer::Parts.
    const std::function<Result<PinnedFile>(FileId)>& pin;
    const std::function<Result<std::shared_ptr<void>>(FileId)>& keep_uncut;
    const std::function<Result<std::shared_ptr<void>>(FileId)>& keep_unwritten;
    const std::function<bool(FileId)>& written;
  };

  CopyScrub(const Parts& parts, FileId file, const ScrubHow& how)
      : parts_(parts), file_(file), how_(how) {}

  [[nodiscard]] Result<ScrubOutcome> run();

 private:
  // The file is as it was when the scrub began.
  [[nodiscard]] bool is_unchanged() const;
  // And nobody writes it.
  [[nodiscard]] bool is_still() const;
  // False: it is being written.
  [[nodiscard]] Result<bool> scrub_stripe(std::size_t stripe);
  // Of the stripe's copies those that differ from the source's. Nothing: it is being written.
  [[nodiscard]] Result<std::optional<std::vector<ScrubFinding>>> compare(std::size_t stripe,
                                                                         std::uint32_t source);
  [[nodiscard]] Result<bool> has_object(std::uint32_t ds_id) const;
  [[nodiscard]] Result<> ask_third(std::size_t stripe, std::vector<ScrubFinding>& differ);
  [[nodiscard]] control::Resync job(std::size_t stripe, std::uint32_t ds_id,
                                    std::uint32_t source) const;
  [[nodiscard]] Result<control::ResyncProgress> differing(std::size_t stripe, std::uint32_t ds_id,
                                                          std::uint32_t source,
                                                          std::uint64_t from = 0);
  [[nodiscard]] Result<> mend_from_follower(std::size_t stripe, ScrubFinding& finding);
  [[nodiscard]] Result<> mend(std::size_t stripe, ScrubFinding& finding);

  const Parts parts_;
  const FileId file_;
  const ScrubHow how_;
  std::optional<PinnedFile> pinned_;  // while run()
  std::uint64_t change_ = 0;          // of the inode, when it began
  ScrubOutcome out_;
};

}  // namespace weft::mds
