#include "ganesha-fsal/meta/kv/group_sync.h"

namespace weft::mds {

CommitSeq GroupSync::note_commit() {
  const std::lock_guard lock(mutex_);
  return ++committed_;
}

Result<> GroupSync::wait(CommitSeq seq) {
  Lock lock(mutex_);
  while (durable_ < seq) {
    if (auto failed = failure(lock)) return std::unexpected(std::move(*failed));
    if (syncing_) {
      synced_.wait(lock);
      continue;
    }
    syncing_ = true;
    const CommitSeq covered = committed_;
    lock.unlock();
    auto done = sync_();
    lock.lock();
    syncing_ = false;
    if (!done) fail_with(lock, done.error());
    if (!failed_) durable_ = covered;
    synced_.notify_all();
  }
  return {};
}

void GroupSync::poison(const Error& error) {
  Lock lock(mutex_);
  fail_with(lock, error);
}

void GroupSync::fail_with(Lock& lock, const Error& error) {
  if (failed_) return;
  failed_ = error;
  lock.unlock();
  if (on_failure_) on_failure_(error);
  lock.lock();
  told_ = true;
  synced_.notify_all();
}

std::optional<Error> GroupSync::failure(Lock& lock) const {
  if (failed_) synced_.wait(lock, [this] { return told_; });
  return failed_;
}

std::optional<Error> GroupSync::poisoned() const {
  Lock lock(mutex_);
  return failure(lock);
}

void GroupSync::restart() {
  const std::lock_guard lock(mutex_);
  durable_ = committed_;
  failed_.reset();
  told_ = false;
}

CommitSeq GroupSync::durable() const {
  const std::lock_guard lock(mutex_);
  return durable_;
}

}  // namespace weft::mds
