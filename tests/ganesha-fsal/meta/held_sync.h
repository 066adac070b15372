// A store whose syncs can be held up: for tests of what goes on meanwhile.
//
// Threading: any thread.
#pragma once

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
      if (held_) {
        reached_ = true;
        changed_.notify_all();
        changed_.wait(mutex_, [this]() WEFT_REQUIRES(mutex_) { return !held_; });
      }
    }
    return under_.wait_durable(seq);
  }

  void hold() { set(true); }
  void let_go() { set(false); }
  // Until somebody waits for a sync.
  void wait_until_held() {
    MutexLock lock(mutex_);
    changed_.wait(mutex_, [this]() WEFT_REQUIRES(mutex_) { return reached_; });
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
  bool reached_ WEFT_GUARDED_BY(mutex_) = false;
};

}  // namespace weft::mds
