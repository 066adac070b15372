#include "ganesha-fsal/meta/kv/group_sync.h"

namespace weft::mds {

CommitSeq GroupSync::note_commit() {
  const MutexLock lock(mutex_);
  return ++committed_;
}

Result<> GroupSync::wait(CommitSeq seq) {
  MutexLock lock(mutex_);
  while (durable_ < seq) {
    if (auto failed = failure()) return std::unexpected(std::move(*failed));
    if (syncing_) {
      synced_.wait(mutex_);
      continue;
    }
    syncing_ = true;
    const CommitSeq covered = committed_;
    lock.unlock();
    auto done = sync_();
    lock.lock();
    syncing_ = false;
    if (!done) fail_with(done.error());
    if (!failed_) durable_ = covered;
    synced_.notify_all();
  }
  return {};
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
  synced_.notify_all();
}

std::optional<Error> GroupSync::failure() const {
  if (failed_) synced_.wait(mutex_, [this]() WEFT_REQUIRES(mutex_) { return told_; });
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

CommitSeq GroupSync::durable() const {
  const MutexLock lock(mutex_);
  return durable_;
}

}  // namespace weft::mds
