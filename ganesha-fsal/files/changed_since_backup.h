// Which files of a store that came back from a backup were written after it, by name, for an
// administrator. Who compares a file with its objects notes what it finds, and looks for no names:
// that takes long. tell() does, and logs an event for each file.
//
// At most kMostNamed files are told by name in a run of the process, the others are counted.
//
// Threading: any thread; tell() is for one at a time.
//
// Ownership: the namespace outlives it.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "ganesha-fsal/meta/ops/namespace.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

class ChangedSinceBackup {
 public:
  static constexpr std::size_t kMostNamed = 100;

  explicit ChangedSinceBackup(const Namespace& names) : names_(names) {}
  ChangedSinceBackup(const ChangedSinceBackup&) = delete;
  ChangedSinceBackup& operator=(const ChangedSinceBackup&) = delete;

  // What is told of it: "was written".
  void note(FileId file, std::string what);
  // All that was noted since the last time. Goes through all names if there is something to tell,
  // which takes seconds with millions. When `stops` says so it tells nothing, until the next call.
  void tell(const std::function<bool()>& stops);
  // By name, so far.
  [[nodiscard]] std::size_t told() const;

 private:
  const Namespace& names_;
  mutable Mutex mutex_;
  std::map<FileId, std::string> noted_ WEFT_GUARDED_BY(mutex_);  // and not told yet
  std::size_t told_ WEFT_GUARDED_BY(mutex_) = 0;
  std::size_t unnamed_ WEFT_GUARDED_BY(mutex_) = 0;
  std::size_t unnamed_told_ WEFT_GUARDED_BY(mutex_) = 0;
};

}  // namespace weft::mds
