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

void GroupSync::finish() {
  MutexLock lock(mutex_);
  stop_ = true;
  wanted_.notify_all();
  std::thread thread = std::move(thread_);
  lock.unlock();
  if (thread.joinable()) thread.join();
  lock.lock();
  all_told_.wait(mutex_, [this]() WEFT_REQUIRES(mutex_) { return telling_ == 0; });
}

void GroupSync::tell(std::span<const Told> told) {
  std::vector<void*> together;
  for (std::size_t i = 0; i < told.size(); ++i) {
    together.push_back(told[i].who);
    if (i + 1 < told.size() && told[i + 1].tell == told[i].tell) continue;
    told[i].tell(together);
    together.clear();
  }
}

CommitSeq GroupSync::note_commit() { return ++committed_; }

Result<> GroupSync::wait(CommitSeq seq) {
  while (durable_ < seq) {
    MutexLock lock(mutex_);
    if (durable_ >= seq) break;
    if (auto failed = failure()) return std::unexpected(std::move(*failed));
    if (!syncing_ && !waited_for()) {
      lead();
      continue;
    }
    need_thread();
    Waiter self(seq);
    waiting_.push_back(&self);
    lock.unlock();
    self.sleep();
  }
  return {};
}

bool GroupSync::tell_when_settled(CommitSeq seq, KvStore::Tell tell, void* who) {
  if (durable_ >= seq) return false;
  const MutexLock lock(mutex_);
  if (durable_ >= seq || failed_) return false;
  if (!syncing_ && !waited_for()) {
    lead();  // it covers `seq`, or fails
    return false;
  }
  need_thread();
  to_tell_.push_back({seq, tell, who});
  return true;
}

void GroupSync::need_thread() {
  if (!thread_.joinable()) thread_ = std::thread([this] { lead_on(); });
}

void GroupSync::lead_on() {
  MutexLock lock(mutex_);
  while (true) {
    wanted_.wait(mutex_,
                 [this]() WEFT_REQUIRES(mutex_) { return !syncing_ && (stop_ || waited_for()); });
    if (!waited_for()) return;
    lead();
  }
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
  std::vector<Waiter*> woken;
  std::erase_if(waiting_, [&](Waiter* waiter) WEFT_REQUIRES(mutex_) {
    if (!failed_ && waiter->seq() > durable_) return false;
    woken.push_back(waiter);
    return true;
  });
  std::vector<Told> told;
  std::erase_if(to_tell_, [&](const Told& one) WEFT_REQUIRES(mutex_) {
    if (!failed_ && one.seq > durable_) return false;
    told.push_back(one);
    return true;
  });
  if (stop_ || waited_for()) wanted_.notify_all();  // its sync goes on while the others do
  ++telling_;
  mutex_.unlock();
  tell(told);
  for (Waiter* waiter : woken) waiter->wake();
  mutex_.lock();
  if (--telling_ == 0) all_told_.notify_all();
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
