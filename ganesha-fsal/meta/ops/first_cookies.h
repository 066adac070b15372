// Where the entries of a directory begin, for those of which many were removed at its front: a
// listing would pass over all of these each time, until the store has compacted them.
//
// A directory gives each new entry a greater cookie than any before, and no entry gets a smaller
// one than it has: where a listing found the first, nothing is below for ever. Nothing of this is
// stored.
//
// Threading: any thread.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "ganesha-fsal/meta/schema/types.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

class FirstCookies {
 public:
  // The directory has no entry below. 0: nothing is known.
  [[nodiscard]] std::uint64_t of(FileId dir) const WEFT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    const auto at = first_.find(dir);
    return at == first_.end() ? 0 : at->second;
  }

  // A listing that began no later than at `from` has found this entry to be the first. Kept if a
  // good many were passed over.
  void found(FileId dir, std::uint64_t from, std::uint64_t first) WEFT_EXCLUDES(mutex_) {
    if (first < from + kMany) return;
    const MutexLock lock(mutex_);
    if (first_.size() >= kMostDirectories) first_.clear();
    std::uint64_t& kept = first_[dir];
    if (first > kept) kept = first;
  }

 private:
  static constexpr std::uint64_t kMany = 64;
  static constexpr std::size_t kMostDirectories = 4096;

  mutable Mutex mutex_;
  std::unordered_map<FileId, std::uint64_t> first_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft::mds
