#include "ganesha-fsal/files/changed_since_backup.h"

#include <spdlog/spdlog.h>

#include <set>
#include <utility>

#include "rpc/base/log_text.h"

namespace weft::mds {

void ChangedSinceBackup::note(FileId file, std::string what) {
  const MutexLock lock(mutex_);
  if (told_ + noted_.size() < kMostNamed) {
    noted_[file] = std::move(what);
  } else {
    ++unnamed_;
  }
}

void ChangedSinceBackup::tell(const std::function<bool()>& stops) {
  std::map<FileId, std::string> noted;
  {
    const MutexLock lock(mutex_);
    noted = noted_;
  }
  std::set<FileId> files;
  for (const auto& [file, what] : noted) files.insert(file);
  const auto paths = names_.names_of(files);
  if (!paths || stops()) return;
  for (const auto& [file, what] : noted) {
    const auto path = paths->find(file);
    spdlog::info("event=changed_since_backup fileid={} path=\"{}\" what=\"{}\"", file,
                 path == paths->end() ? "a file without a name" : log_text(path->second), what);
  }
  const MutexLock lock(mutex_);
  for (const FileId file : files) noted_.erase(file);
  told_ += files.size();
  if (unnamed_ == unnamed_told_) return;
  spdlog::info("event=changed_since_backup_more files={}", unnamed_);
  unnamed_told_ = unnamed_;
}

std::size_t ChangedSinceBackup::told() const {
  const MutexLock lock(mutex_);
  return told_;
}

}  // namespace weft::mds
