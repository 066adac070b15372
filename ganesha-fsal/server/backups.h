// Checkpoints of the metadata store, for `weft backup`, which copies their files.
//
// A checkpoint keeps what it has on the disk, also when the store has it no more. So it goes when
// its copy is made; and when nobody copies it, which shows by a lock: who copies holds a shared
// flock(2) on the folder. Whoever made it has kPatience to take that.
//
// Threading: any thread. begin() and end() wait for the store.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "ganesha-fsal/meta/kv/kv.h"
#include "rpc/base/clock.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

class Backups {
 public:
  static constexpr std::chrono::seconds kPatience{60};

  Backups(KvStore& store, weft::Clock& clock) : store_(store), clock_(clock) {}
  Backups(const Backups&) = delete;
  Backups& operator=(const Backups&) = delete;

  // Its folder. kBusy: somebody copies one.
  [[nodiscard]] Result<std::string> begin();
  [[nodiscard]] Result<> end();
  // Drops one that nobody copies. Call now and then.
  void look();

 private:
  [[nodiscard]] bool in_use() const WEFT_REQUIRES(mutex_);
  // Whoever makes or drops one says so first, and is alone until it ends. kBusy.
  [[nodiscard]] Result<> change() WEFT_REQUIRES(mutex_);
  [[nodiscard]] Result<> drop();

  KvStore& store_;
  weft::Clock& clock_;
  mutable Mutex mutex_;
  bool changing_ WEFT_GUARDED_BY(mutex_) = false;
  std::string folder_ WEFT_GUARDED_BY(mutex_);  // empty: there is none
  TimePoint made_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft::mds
