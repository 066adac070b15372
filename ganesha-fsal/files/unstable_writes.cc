#include "ganesha-fsal/files/unstable_writes.h"

namespace weft::mds {

void UnstableWrites::written(FileId file, std::uint64_t verifier, Clock::time_point now) {
  const MutexLock lock(mutex_);
  Written& written = files_.try_emplace(file, Written{.verifier = verifier}).first->second;
  written.last = ++writes_;
  written.at = now;
}

std::uint64_t UnstableWrites::last(FileId file) const {
  const MutexLock lock(mutex_);
  const auto found = files_.find(file);
  return found == files_.end() ? 0 : found->second.last;
}

bool UnstableWrites::committed(FileId file, std::uint64_t last, std::uint64_t verifier) {
  const MutexLock lock(mutex_);
  const auto found = files_.find(file);
  if (last == 0 || found == files_.end()) return false;
  const bool lost = found->second.verifier != verifier;
  if (found->second.last == last) {
    files_.erase(found);
  } else {
    found->second.verifier = verifier;  // at most what was written since is uncommitted
  }
  return lost;
}

void UnstableWrites::forget(FileId file) {
  const MutexLock lock(mutex_);
  files_.erase(file);
}

bool UnstableWrites::contains(FileId file) const {
  const MutexLock lock(mutex_);
  return files_.contains(file);
}

std::vector<FileId> UnstableWrites::take_due(Clock::time_point before, Clock::time_point now,
                                             std::size_t limit) {
  std::vector<FileId> due;
  const MutexLock lock(mutex_);
  for (auto& [file, written] : files_) {
    if (due.size() == limit) break;
    if (written.at > before) continue;
    written.at = now;
    due.push_back(file);
  }
  return due;
}

}  // namespace weft::mds
