#include "rpc/base/late_close.h"

#include <deque>
#include <system_error>
#include <thread>

#include "rpc/base/mutex.h"

namespace weft {
namespace {

class Closer {
 public:
  void add(OwnedFd descriptor) {
    const MutexLock lock(mutex_);
    waiting_.push_back(std::move(descriptor));
    ++count_;
    some_.notify_one();
    if (!started_) started_ = start();
  }
  [[nodiscard]] std::size_t count() const {
    const MutexLock lock(mutex_);
    return count_;
  }

 private:
  // Without a thread to be had they wait for the next that is added.
  [[nodiscard]] bool start() {
    try {
      std::thread([this] { run(); }).detach();
      return true;
    } catch (const std::system_error&) {
      return false;
    }
  }
  [[noreturn]] void run() {
    for (;;) {
      {
        const OwnedFd closed = next();
      }
      const MutexLock lock(mutex_);
      --count_;
    }
  }
  [[nodiscard]] OwnedFd next() {
    const MutexLock lock(mutex_);
    some_.wait(mutex_, [this]() WEFT_REQUIRES(mutex_) { return !waiting_.empty(); });
    OwnedFd first = std::move(waiting_.front());
    waiting_.pop_front();
    return first;
  }

  mutable Mutex mutex_;
  CondVar some_;
  std::deque<OwnedFd> waiting_ WEFT_GUARDED_BY(mutex_);
  std::size_t count_ WEFT_GUARDED_BY(mutex_) = 0;  // with the one that is being closed
  bool started_ WEFT_GUARDED_BY(mutex_) = false;
};

// Never destroyed: its thread is not waited for.
Closer& closer() {
  static Closer& one = *new Closer;
  return one;
}

}  // namespace

void close_late(OwnedFd descriptor) { closer().add(std::move(descriptor)); }

std::size_t unclosed() { return closer().count(); }

}  // namespace weft
