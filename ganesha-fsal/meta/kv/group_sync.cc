#include "ganesha-fsal/meta/kv/group_sync.h"

#include <semaphore.h>

#include <cerrno>
#include <utility>

namespace weft::mds {

// Asleep until it is woken, once. Who wakes up takes no mutex for it: thirty of them would stand in
// line for that, behind the one that is still waking the others.
class GroupSync::Waiter {
 public:
  explicit Waiter(CommitSeq seq) : seq_(seq) { ::sem_init(&woken_, 0, 0); }
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;
  ~Waiter() { ::sem_destroy(&woken_); }

  [[nodiscard]] CommitSeq seq() const { return seq_; }
  void sleep() {
    while (::sem_wait(&woken_) != 0 && errno == EINTR) {
    }
  }
  // It may be gone when this returns.
  void wake() { ::sem_post(&woken_); }

 private:
  const CommitSeq seq_;
  ::sem_t woken_{};
};

CommitSeq GroupSync::note_commit() { return ++committed_; }

Result<> GroupSync::wait(CommitSeq seq) {
  while (durable_ < seq) {
    MutexLock lock(mutex_);
    if (durable_ >= seq) break;
    if (auto failed = failure()) return std::unexpected(std::move(*failed));
    if (!syncing_) {
      lead();
      continue;
    }
    Waiter self(seq);
    waiting_.push_back(&self);
    lock.unlock();
    self.sleep();
  }
  return {};
}

void GroupSync::lead() {
  syncing_ = true;
  const CommitSeq covered = committed_;
  mutex_.unlock();
  auto done = sync_();
  mutex_.lock();
  syncing_ = false;
  ++syncs_;
  if (!done) fail_with(done.error());
  if (!failed_) durable_ = covered;
  wake();
}

void GroupSync::wake() {
  Waiter* leader = nullptr;
  std::vector<Waiter*> done;
  std::erase_if(waiting_, [&](Waiter* waiter) WEFT_REQUIRES(mutex_) {
    if (failed_ || waiter->seq() <= durable_) {
      done.push_back(waiter);
      return true;
    }
    return std::exchange(leader, leader != nullptr ? leader : waiter) == nullptr;
  });
  mutex_.unlock();
  // Its sync goes on while the others do.
  if (leader != nullptr) leader->wake();
  for (Waiter* waiter : done) waiter->wake();
  mutex_.lock();
}

void GroupSync::poison(const Error& error) {
  const MutexLock lock(mutex_);
  fail_with(error);
  static_cast<void>(failure());  // another's may be under way
}

void GroupSync::fail_with(const Error& error) {
  if (failed_) return;
  failed_ = error;
  has_failed_ = true;
  mutex_.unlock();
  if (on_failure_) on_failure_(error);
  mutex_.lock();
  told_ = true;
  reported_.notify_all();
  wake();
}

std::optional<Error> GroupSync::failure() const {
  if (failed_) reported_.wait(mutex_, [this]() WEFT_REQUIRES(mutex_) { return told_; });
  return failed_;
}

std::optional<Error> GroupSync::poisoned() const {
  if (!has_failed_) return std::nullopt;
  const MutexLock lock(mutex_);
  return failure();
}

void GroupSync::restart() {
  const MutexLock lock(mutex_);
  durable_ = committed_.load();
  failed_.reset();
  has_failed_ = false;
  told_ = false;
}

}  // namespace weft::mds
