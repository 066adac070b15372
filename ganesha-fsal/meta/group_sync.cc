#include "ganesha-fsal/meta/group_sync.h"

#include <chrono>

namespace weft::mds {

CommitSeq GroupSync::note_commit() {
  const std::lock_guard lock(mutex_);
  return ++committed_;
}

Result<> GroupSync::wait(CommitSeq seq) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  std::unique_lock lock(mutex_);
  while (durable_ < seq) {
    if (failed_) return std::unexpected(*failed_);
    if (syncing_) {
      if (synced_.wait_until(lock, deadline) == std::cv_status::timeout && durable_ < seq) {
        if (!failed_) failed_ = Error{Errc::kTimedOut, "the metadata store's log does not sync"};
      }
      continue;
    }
    syncing_ = true;
    const CommitSeq covered = committed_;
    lock.unlock();
    auto done = sync_();
    lock.lock();
    syncing_ = false;
    if (!done && !failed_) failed_ = std::move(done.error());
    if (!failed_) durable_ = covered;
    synced_.notify_all();
  }
  return {};
}

void GroupSync::poison(const Error& error) {
  const std::lock_guard lock(mutex_);
  if (!failed_) failed_ = error;
  synced_.notify_all();
}

std::optional<Error> GroupSync::poisoned() const {
  const std::lock_guard lock(mutex_);
  return failed_;
}

void GroupSync::restart() {
  const std::lock_guard lock(mutex_);
  durable_ = committed_;
  failed_.reset();
}

CommitSeq GroupSync::durable() const {
  const std::lock_guard lock(mutex_);
  return durable_;
}

}  // namespace weft::mds
