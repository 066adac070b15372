#include "ganesha-fsal/meta/kv/group_sync.h"

#include <utility>

namespace weft::mds {

CommitSeq GroupSync::note_commit() {
  const MutexLock lock(mutex_);
  return ++committed_;
}

Result<> GroupSync::wait(CommitSeq seq) {
  if (durable_ >= seq) return {};
  const MutexLock lock(mutex_);
  while (durable_ < seq) {
    if (auto failed = failure()) return std::unexpected(std::move(*failed));
    if (!syncing_) {
      lead();
      continue;
    }
    Waiter self{.seq = seq};
    waiting_.push_back(&self);
    self.wake.wait(mutex_, [&self] { return self.woken; });
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
  bool leader = false;
  std::erase_if(waiting_, [&](Waiter* waiter) WEFT_REQUIRES(mutex_) {
    const bool done = failed_ || waiter->seq <= durable_;
    if (!done && std::exchange(leader, true)) return false;
    waiter->woken = true;
    waiter->wake.notify_one();
    return true;
  });
}

void GroupSync::poison(const Error& error) {
  const MutexLock lock(mutex_);
  fail_with(error);
}

void GroupSync::fail_with(const Error& error) {
  if (failed_) return;
  failed_ = error;
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
  const MutexLock lock(mutex_);
  return failure();
}

void GroupSync::restart() {
  const MutexLock lock(mutex_);
  durable_ = committed_;
  failed_.reset();
  told_ = false;
}

std::uint64_t GroupSync::commits() const {
  const MutexLock lock(mutex_);
  return committed_;
}

}  // namespace weft::mds
