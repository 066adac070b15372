// Files with several copies that were written through this server, unstable, and not committed
// since.
//
// What was not committed a data server may lose in a crash, at one copy and not at another. A
// client that commits is told by the write verifier, and writes it again; but a client need never
// commit, or may be gone by then. So this server commits such files itself after a while, and if a
// COMMIT says that something may be lost, whoever made it, the file's copies are to be compared.
//
// Threading: any thread; a mutex is held for a moment.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ganesha-fsal/files/grants.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

class UnstableWrites {
 public:
  // A write is about to be answered with this verifier.
  void written(FileId file, std::uint64_t verifier, Clock::time_point now);

  // What a COMMIT that is about to be sent speaks for; 0: nothing.
  [[nodiscard]] std::uint64_t last(FileId file) const;
  // It was answered, with this verifier. True: what it speaks for may be lost in part.
  [[nodiscard]] bool committed(FileId file, std::uint64_t last, std::uint64_t verifier);
  // The file is gone.
  void forget(FileId file);

  [[nodiscard]] bool contains(FileId file) const;
  // Not written, nor due, since `before`: at most `limit`, which count as due at `now`.
  [[nodiscard]] std::vector<FileId> take_due(Clock::time_point before, Clock::time_point now,
                                             std::size_t limit);

 private:
  struct Written {
    std::uint64_t verifier = 0;  // of the first
    std::uint64_t last = 0;      // number of the last
    Clock::time_point at;        // of the last, or of when it was last due
  };

  mutable Mutex mutex_;
  std::map<FileId, Written> files_ WEFT_GUARDED_BY(mutex_);
  std::uint64_t writes_ WEFT_GUARDED_BY(mutex_) = 0;
};

}  // namespace weft::mds
