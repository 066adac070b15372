// Checkpoints of the metadata store, for `weft backup`, which copies their files.
//
// A checkpoint keeps what it has on the disk, also when the store has it no more. So it goes when
// its copy is made; when nobody copies it, which shows by a lock: who copies holds a shared
// flock(2) on the folder, and whoever made it has kPatience to take that; and, copied or not, when
// the store is full.
//
// Each has an id. Who has copied it ends it by that, and is told whether it was there until then:
// of one that went before, any file may be missing in the copy.
//
// Threading: any thread. begin() and end() wait for the store.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "ganesha-fsal/meta/kv/kv.h"
#include "rpc/base/clock.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

class Backups {
 public:
  static constexpr std::chrono::seconds kPatience{60};

  struct Checkpoint {
    std::string folder;
    std::string id;  // no other has it, of no run
  };

  Backups(KvStore& store, weft::Clock& clock) : store_(store), clock_(clock) {}
  Backups(const Backups&) = delete;
  Backups& operator=(const Backups&) = delete;

  // kBusy: somebody copies one. kNoSpace: the store is full.
  [[nodiscard]] Result<Checkpoint> begin();
  // Drops the one with this id. Success: it was there until now, or had been ended so before.
  // Otherwise it had gone: kNoSpace, since the store got full; kStale, for any other reason. No
  // id is what a `weft` says that knows none: any is dropped that nobody copies (kBusy).
  [[nodiscard]] Result<> end(const std::string& id);
  // Drops one that nobody copies, and any while the store is full. Call now and then.
  void look();

 private:
  [[nodiscard]] bool is_locked() const WEFT_REQUIRES(mutex_);
  [[nodiscard]] bool in_use() const WEFT_REQUIRES(mutex_);
  // Whoever makes or drops one says so first, and is alone until it ends. kBusy.
  [[nodiscard]] Result<> change() WEFT_REQUIRES(mutex_);
  // Whoever copies it is told this when he ends it.
  void give_up(Error why) WEFT_REQUIRES(mutex_);
  // After change(). What is not removed is by and by.
  [[nodiscard]] Result<> drop();

  KvStore& store_;
  weft::Clock& clock_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool changing_ WEFT_GUARDED_BY(mutex_) = false;
  std::string folder_ WEFT_GUARDED_BY(mutex_);  // empty: there is none
  std::string id_ WEFT_GUARDED_BY(mutex_);      // empty: there is none, or it is only to be removed
  TimePoint made_ WEFT_GUARDED_BY(mutex_);
  std::uint64_t count_ WEFT_GUARDED_BY(mutex_) = 0;
  std::string ended_ WEFT_GUARDED_BY(mutex_);     // the last that was, by its id
  std::string given_up_ WEFT_GUARDED_BY(mutex_);  // the last that was
  Error why_ WEFT_GUARDED_BY(mutex_) = {Errc::kStale, ""};
};

}  // namespace weft::mds
