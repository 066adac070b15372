#include "ganesha-fsal/server/backups.h"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <unistd.h>

#include <utility>

namespace weft::mds {
namespace {

constexpr const char* kNobody = "nobody copied the checkpoint for a minute";

}  // namespace

bool Backups::is_locked() const {
  const int folder = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return false;
  const bool locked = ::flock(folder, LOCK_EX | LOCK_NB) != 0;
  ::close(folder);
  return locked;
}

bool Backups::in_use() const {
  if (id_.empty()) return false;
  return clock_.now() - made_ < kPatience || is_locked();
}

Result<> Backups::change() {
  if (changing_) return fail(Errc::kBusy, "a backup begins or ends just now");
  changing_ = true;
  return {};
}

void Backups::give_up(Error why) {
  if (id_.empty()) return;
  spdlog::warn("event=checkpoint_dropped why=\"{}\"", why.text);
  given_up_ = std::exchange(id_, {});
  why_ = std::move(why);
}

Result<> Backups::drop() {
  auto dropped = store_.drop_checkpoint();
  if (!dropped) spdlog::warn("event=checkpoint_left error=\"{}\"", dropped.error().describe());
  const MutexLock lock(mutex_);
  changing_ = false;
  if (dropped) folder_.clear();
  changed_.notify_all();
  return dropped;
}

Result<Backups::Checkpoint> Backups::begin() {
  bool old = false;
  {
    const MutexLock lock(mutex_);
    if (in_use()) return fail(Errc::kBusy, "a backup is being made, or was a minute ago");
    if (auto alone = change(); !alone) return pass(alone);
    old = !folder_.empty();
    give_up({Errc::kStale, kNobody});
  }
  if (old) {
    if (auto dropped = drop(); !dropped) return pass(dropped);
    const MutexLock lock(mutex_);
    if (auto alone = change(); !alone) return pass(alone);
  }
  auto folder = store_.make_checkpoint();
  const MutexLock lock(mutex_);
  changing_ = false;
  changed_.notify_all();
  if (!folder) return pass(folder);
  folder_ = *folder;
  id_ = fmt::format("{}.{}", clock_.wall_ns(), ++count_);
  made_ = clock_.now();
  spdlog::info("event=checkpoint_made folder={} id={}", folder_, id_);
  return Checkpoint{.folder = folder_, .id = id_};
}

Result<> Backups::end(const std::string& id) {
  {
    const MutexLock lock(mutex_);
    const auto idle = [this]() WEFT_REQUIRES(mutex_) { return !changing_; };
    if (!changed_.wait_for(mutex_, kPatience, idle)) {
      return fail(Errc::kBusy, "a backup begins or ends just now");
    }
    if (id.empty()) {
      if (folder_.empty()) return {};
      if (is_locked()) return fail(Errc::kBusy, "somebody else copies the checkpoint");
      give_up({Errc::kStale, "a weft of an older version ended the checkpoint"});
    } else if (id == id_) {
      ended_ = std::exchange(id_, {});
    } else if (id == ended_) {
      return {};
    } else if (id == given_up_) {
      return std::unexpected(why_);
    } else {
      return fail(Errc::kStale,
                  "the checkpoint is not there any more: the metadata server was restarted");
    }
    changing_ = true;
  }
  static_cast<void>(drop());
  return {};
}

void Backups::look() {
  {
    const MutexLock lock(mutex_);
    if (folder_.empty()) return;
    const auto room = store_.room();
    const bool full = !room && room.error() == Errc::kNoSpace;
    if ((!full && in_use()) || !change()) return;
    give_up(full ? Error{Errc::kNoSpace,
                         "the metadata store is full: its checkpoint was dropped to make room"}
                 : Error{Errc::kStale, kNobody});
  }
  static_cast<void>(drop());
}

}  // namespace weft::mds
