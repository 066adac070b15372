// A store whose syncs can be held up: for tests of what goes on meanwhile.
//
// Threading: any thread.
#pragma once

#include <chrono>
#include <optional>
#include <thread>

#include "ganesha-fsal/meta/kv/kv.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

class HeldSync final : public KvStore {
 public:
  explicit HeldSync(KvStore& under) : under_(under) {}
  [[nodiscard]] std::unique_ptr<Transaction> begin() override { return under_.begin(); }
  [[nodiscard]] const KvReader& latest() const override { return under_.latest(); }
  [[nodiscard]] std::unique_ptr<KvReader> snapshot() const override { return under_.snapshot(); }
  [[nodiscard]] Result<> wait_durable(CommitSeq seq) override {
    {
      MutexLock lock(mutex_);
      if (held_ && (!thread_ || thread_ == std::this_thread::get_id())) {
        const int mine = ++reached_;
        changed_.notify_all();
        changed_.wait(mutex_, [&]() WEFT_REQUIRES(mutex_) { return !held_ || let_go_ >= mine; });
      }
    }
    return under_.wait_durable(seq);
  }

  // All syncs from now on; or those of the first thread that calls it.
  void hold() { set(true); }
  void hold_this_thread() {
    const MutexLock lock(mutex_);
    if (thread_) return;
    thread_ = std::this_thread::get_id();
    held_ = true;
  }
  void let_go() { set(false); }
  void let_go_of_one() {
    const MutexLock lock(mutex_);
    ++let_go_;
    changed_.notify_all();
  }
  // Until somebody waits for a sync, the one of this number, from 1. False: that takes a minute.
  [[nodiscard]] bool await_held(int number = 1) {
    MutexLock lock(mutex_);
    return changed_.wait_for(mutex_, std::chrono::seconds(60),
                             [&]() WEFT_REQUIRES(mutex_) { return reached_ >= number; });
  }

 private:
  void set(bool held) {
    const MutexLock lock(mutex_);
    held_ = held;
    changed_.notify_all();
  }

  KvStore& under_;
  Mutex mutex_;
  CondVar changed_;
  bool held_ WEFT_GUARDED_BY(mutex_) = false;
  std::optional<std::thread::id> thread_ WEFT_GUARDED_BY(mutex_);  // nullopt: of all
  int reached_ WEFT_GUARDED_BY(mutex_) = 0;
  int let_go_ WEFT_GUARDED_BY(mutex_) = 0;
};

}  // namespace weft::mds
