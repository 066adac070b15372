#include "ganesha-fsal/files/unstable_writes.h"

#include "ganesha-fsal/files/file_table.h"

namespace weft::mds {

void UnstableWrites::written(std::uint64_t with_verifier, std::uint64_t number,
                             Clock::time_point now, Clock::duration commit_after) {
  if (last == 0) {
    verifier = with_verifier;
    commit_at = now + commit_after;
  }
  last = number;
  at = now;  // and commit_at stays: the index is not to change with each write
}

bool UnstableWrites::committed(std::uint64_t upto, std::uint64_t with_verifier) {
  if (upto == 0 || last == 0) return false;
  const bool lost = verifier != with_verifier;
  if (last == upto) {
    last = 0;
  } else {
    verifier = with_verifier;  // at most what was written since is uncommitted
  }
  return lost;
}

std::vector<FileId> take_uncommitted(FileTable& files, Clock::time_point now,
                                     Clock::duration commit_after, std::size_t limit) {
  std::vector<FileId> due;
  for (const FileId file : files.due(Due::kCommit, now, limit)) {
    const FileTable::Changing record(files, file);
    UnstableWrites& unstable = record->unstable;
    if (unstable.idle() || unstable.commit_at > now) continue;
    const bool written_since = unstable.at > now - commit_after;
    unstable.commit_at = (written_since ? unstable.at : now) + commit_after;
    if (!written_since) due.push_back(file);
  }
  return due;
}

}  // namespace weft::mds
