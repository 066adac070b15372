#include "ganesha-fsal/server/backups.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <unistd.h>

namespace weft::mds {

bool Backups::in_use() const {
  if (clock_.now() - made_ < kPatience) return true;
  const int folder = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return false;
  const bool locked = ::flock(folder, LOCK_EX | LOCK_NB) != 0;
  ::close(folder);
  return locked;
}

Result<> Backups::change() {
  if (changing_) return fail(Errc::kBusy, "a backup begins or ends just now");
  changing_ = true;
  return {};
}

Result<> Backups::drop() {
  auto dropped = store_.drop_checkpoint();
  const MutexLock lock(mutex_);
  changing_ = false;
  if (dropped) folder_.clear();
  return dropped;
}

Result<std::string> Backups::begin() {
  bool old = false;
  {
    const MutexLock lock(mutex_);
    old = !folder_.empty();
    if (old && in_use()) return fail(Errc::kBusy, "a backup is being made, or was a minute ago");
    if (auto alone = change(); !alone) return pass(alone);
  }
  if (old) {
    if (auto dropped = drop(); !dropped) return pass(dropped);
    const MutexLock lock(mutex_);
    if (auto alone = change(); !alone) return pass(alone);
  }
  auto folder = store_.make_checkpoint();
  const MutexLock lock(mutex_);
  changing_ = false;
  if (!folder) return folder;
  folder_ = *folder;
  made_ = clock_.now();
  spdlog::info("event=checkpoint_made folder={}", folder_);
  return folder;
}

Result<> Backups::end() {
  {
    const MutexLock lock(mutex_);
    if (auto alone = change(); !alone) return alone;
  }
  return drop();
}

void Backups::look() {
  {
    const MutexLock lock(mutex_);
    if (folder_.empty() || in_use() || !change()) return;
  }
  spdlog::warn("event=checkpoint_dropped why=\"nobody copies it\"");
  if (auto dropped = drop(); !dropped) {
    spdlog::warn("event=checkpoint_left error=\"{}\"", dropped.error().describe());
  }
}

}  // namespace weft::mds
