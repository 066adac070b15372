// One write verifier that stands for those of all data servers.
//
// A data server's verifier changes when unstable data there may have been lost. Whatever changes,
// ours does: a client that wrote through us before compares unequal at COMMIT and writes again. The
// other way round, as long as ours is the same, every data server seen has kept what it was sent.
//
// A verifier is that of a data server and the partners it brought the bytes to, together: one data
// server has as many as there are sets of partners in handles.
//
// A COMMIT speaks for the servers it went to. When a file's leaders, or their partners, have
// changed since something was written unstable, the old ones may have lost what the new ones know
// nothing of: ours changes then too, so that it is written again through the new ones. So it is
// with a file of one copy that was moved.
//
// Threading: any thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "layout/object_id.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

class VerifierWatch {
 public:
  // Files that are remembered with unstable writes. One more, and all are forgotten and have to be
  // written again.
  static constexpr std::size_t kMaxFiles = 16'384;

  // `start` differs with each start of the process.
  explicit VerifierWatch(std::uint64_t start) : value_(start) {}

  struct Source {
    std::uint32_t ds_id = 0;
    std::array<std::uint32_t, 2> partners = {0, 0};
    friend auto operator<=>(const Source&, const Source&) = default;
  };
  // Takes in a verifier from a reply of a data server; returns ours, to be used for that reply.
  std::uint64_t observe(const Source& source, std::uint64_t verifier);

  // Unstable writes of a file are about to be sent through these leaders. Returns what to answer
  // them with.
  std::uint64_t writing(const layout::ObjectId& object, std::span<const Source> leaders);
  // They are answered, and unstable: a COMMIT may have gone past them.
  void written(const layout::ObjectId& object, std::span<const Source> leaders);
  struct Commit {
    layout::ObjectId object;
    std::uint64_t writes = 0;  // those that it may speak for
  };
  // A COMMIT is about to be sent to these leaders; and all of them have answered it.
  [[nodiscard]] Commit committing(const layout::ObjectId& object, std::span<const Source> leaders);
  void committed(const Commit& commit);

  [[nodiscard]] std::uint64_t value() const {
    const MutexLock lock(mutex_);
    return value_;
  }

 private:
  struct Written {
    std::vector<Source> leaders;
    std::uint64_t last = 0;  // number of the last write
  };

  [[nodiscard]] Written& unstable(const layout::ObjectId& object) WEFT_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::uint64_t value_ WEFT_GUARDED_BY(mutex_);
  std::map<Source, std::uint64_t> seen_ WEFT_GUARDED_BY(mutex_);  // the last of each
  std::unordered_map<layout::ObjectId, Written> unstable_ WEFT_GUARDED_BY(mutex_);
  std::uint64_t writes_ WEFT_GUARDED_BY(mutex_) = 0;
};

}  // namespace weft::mds
