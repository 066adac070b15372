// What the parts of ParityStore share, and nobody else needs.
#pragma once

#include "dataserver/parity/parity_store.h"
#include "rpc/base/mutex.h"

namespace weft::ds {

// Ranges of an object that RangeLocks knows: its bytes, and behind them its header.
constexpr std::uint64_t kObjectEnd = std::uint64_t{1} << 62;
constexpr ByteRange kWholeObject{0, kObjectEnd};
constexpr ByteRange kHeaderRange{kObjectEnd, kObjectEnd + 1};

// Regions of an object that are dirty and being written, until it goes.
class ParityStore::Mark {
 public:
  Mark(ParityStore& store, const ObjectId& object, std::uint64_t first, std::uint64_t last)
      : store_(&store), object_(object), first_(first), last_(last) {}
  Mark(Mark&& other) noexcept
      : store_(std::exchange(other.store_, nullptr)),
        object_(other.object_),
        first_(other.first_),
        last_(other.last_) {}
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
  Mark& operator=(Mark&&) = delete;
  ~Mark();

 private:
  ParityStore* store_;
  ObjectId object_;
  std::uint64_t first_;
  std::uint64_t last_;  // inclusive
};

// Suspends until wake() or, with false, until its deadline.
class ParityStore::Pause {
 public:
  // Precondition: the lock is held; it is given up when the waiter is in the queue.
  Pause(MutexLock& lock, std::deque<Waiter>& waiters, TimePoint deadline)
      : lock_(lock), waiters_(waiters), deadline_(deadline) {}
  bool await_ready() const { return false; }
  // The analysis does not know whose lock it is. To it, who awaits this still has the lock
  // afterwards: let go of it at once.
  void await_suspend(std::coroutine_handle<> handle) WEFT_NO_THREAD_SAFETY_ANALYSIS {
    waiters_.push_back({IoRing::current(), handle, deadline_, &expired_});
    lock_.unlock();
  }
  bool await_resume() const { return !expired_; }

 private:
  MutexLock& lock_;
  std::deque<Waiter>& waiters_;
  TimePoint deadline_;
  bool expired_ = false;
};

// Makes operations wait from now on, and waits for those under way. On rings[0].
class ParityStore::Quiesce {
 public:
  explicit Quiesce(ParityStore& store) : store_(store) {}
  bool await_ready() const { return false; }
  bool await_suspend(std::coroutine_handle<> handle) {
    const MutexLock lock(store_.mutex_);
    store_.blocked_ = true;
    if (store_.in_flight_ == 0) return false;
    store_.quiescing_ = handle;
    return true;
  }
  void await_resume() const {}

 private:
  ParityStore& store_;
};

template <class T>
void ParityStore::run(Task<Result<T>> task, Done<T> done) {
  ++tasks_;
  spawn(std::move(task), [this, done = std::move(done)](Result<T> result) mutable {
    --tasks_;
    done(std::move(result));
  });
}

}  // namespace weft::ds
