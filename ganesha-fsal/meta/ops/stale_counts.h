// How many objects missed writes at each data server: the entries of the journal of stale objects,
// counted, so that nobody reads the journal to know.
//
// Counted once when the namespace is opened. From then on a Tree notes what its transaction adds
// and takes away, and the namespace adds that when the transaction is committed, before it lets go
// of the inodes' locks. So the counts are those of what is committed, and after a crash those of
// what is left: nothing of this is stored.
//
// Threading: StaleCounts, any thread; StaleChanges, one.
#pragma once

#include <cstdint>
#include <map>

#include "rpc/base/mutex.h"

namespace weft::mds {

// By data server: entries added, less those taken away.
using StaleChanges = std::map<std::uint32_t, std::int64_t>;

class StaleCounts {
 public:
  void add(const StaleChanges& changes) WEFT_EXCLUDES(mutex_) {
    if (changes.empty()) return;
    const MutexLock lock(mutex_);
    for (const auto& [ds_id, change] : changes) {
      const auto it = counts_.try_emplace(ds_id, 0).first;
      it->second += static_cast<std::uint64_t>(change);
      if (it->second == 0) counts_.erase(it);
    }
  }

  // Those of data servers that have any.
  [[nodiscard]] std::map<std::uint32_t, std::uint64_t> all() const WEFT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return counts_;
  }

 private:
  mutable Mutex mutex_;
  std::map<std::uint32_t, std::uint64_t> counts_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft::mds
