#include "ganesha-fsal/files/writer_journal.h"

#include <spdlog/spdlog.h>

namespace weft::mds {
namespace {

constexpr std::size_t kMostOfASweep = 4096;

}  // namespace

Result<std::size_t> WriterJournal::open() {
  const auto found = parts_.names.written_files(0, SIZE_MAX);
  if (!found) return fail(found.error().code, found.error().text);
  const MutexLock lock(mutex_);
  for (const WrittenFile& file : *found) entries_[file.id].inherited = true;
  return found->size();
}

Result<WriterJournal::Begun> WriterJournal::begin(FileId file, const Namespace::MakeLayout& make) {
  MutexLock lock(mutex_);
  swept_.wait(mutex_, [&]() WEFT_REQUIRES(mutex_) {
    const auto it = entries_.find(file);
    return it == entries_.end() || !it->second.ending;
  });
  Entry& entry = entries_[file];  // stays where it is while it is pinned
  ++entry.pins;
  entry.idle_since.reset();
  Pin pin(*this, file);
  const bool durable = entry.durable;
  lock.unlock();
  if (durable) {
    auto map = parts_.names.layout(file);
    if (!map) return fail(map.error().code, map.error().text);
    if (!*map) return fail(Errc::kStale, "removed");
    return Begun{std::move(**map), std::move(pin)};
  }
  auto map = parts_.names.begin_writing(file, make);
  if (!map) return fail(map.error().code, map.error().text);
  lock.lock();
  entry.durable = true;
  lock.unlock();
  return Begun{std::move(*map), std::move(pin)};
}

void WriterJournal::unpin(FileId file) {
  const MutexLock lock(mutex_);
  --entries_.at(file).pins;
}

void WriterJournal::doubt(FileId file) {
  const MutexLock lock(mutex_);
  const auto it = entries_.find(file);
  if (it == entries_.end()) return;
  it->second.doubted = ++doubts_;
  it->second.retry_at = {};
}

bool WriterJournal::inherited(FileId file) const {
  const MutexLock lock(mutex_);
  const auto it = entries_.find(file);
  return it != entries_.end() && it->second.inherited;
}

std::optional<WriterJournal::Unsettled> WriterJournal::unsettled(FileId file) const {
  const MutexLock lock(mutex_);
  const auto it = entries_.find(file);
  if (it == entries_.end() || it->second.settled()) return std::nullopt;
  return Unsettled{file, it->second.inherited, it->second.doubted};
}

std::vector<WriterJournal::Unsettled> WriterJournal::due(bool inherited_too,
                                                         std::size_t limit) const {
  std::vector<Unsettled> found;
  const auto now = parts_.now();
  const MutexLock lock(mutex_);
  for (const auto& [file, entry] : entries_) {
    if (found.size() == limit) break;
    if (entry.settled() || entry.retry_at > now) continue;
    if (entry.inherited && !inherited_too) continue;
    found.push_back({file, entry.inherited, entry.doubted});
  }
  return found;
}

void WriterJournal::settled(const Unsettled& what) {
  const MutexLock lock(mutex_);
  const auto it = entries_.find(what.file);
  if (it == entries_.end()) return;
  if (what.inherited) it->second.inherited = false;
  if (it->second.doubted == what.doubted) it->second.doubted = 0;
}

void WriterJournal::not_settled(FileId file) {
  const MutexLock lock(mutex_);
  const auto it = entries_.find(file);
  if (it != entries_.end()) it->second.retry_at = parts_.now() + parts_.retry;
}

void WriterJournal::retry_all() {
  const MutexLock lock(mutex_);
  for (auto& [file, entry] : entries_) entry.retry_at = {};
}

// Marks those that have been idle for long enough as ending.
std::vector<FileId> WriterJournal::take_idle() {
  std::vector<FileId> idle;
  const auto now = parts_.now();
  const MutexLock lock(mutex_);
  for (auto& [file, entry] : entries_) {
    if (idle.size() == kMostOfASweep) break;
    if (entry.pins > 0 || !entry.settled() || parts_.in_use(file)) {
      entry.idle_since.reset();
      continue;
    }
    if (!entry.idle_since) entry.idle_since = now;
    if (now - *entry.idle_since < parts_.linger) continue;
    entry.ending = true;
    idle.push_back(file);
  }
  return idle;
}

void WriterJournal::sweep() {
  const auto idle = take_idle();
  if (idle.empty()) return;
  const auto ended = parts_.names.end_writing(idle);
  if (!ended) spdlog::warn("event=journal_not_swept error=\"{}\"", ended.error().describe());
  {
    const MutexLock lock(mutex_);
    for (const FileId file : idle) {
      if (ended) {
        entries_.erase(file);
      } else {
        entries_.at(file).ending = false;
      }
    }
  }
  swept_.notify_all();
}

std::size_t WriterJournal::size() const {
  const MutexLock lock(mutex_);
  return entries_.size();
}

}  // namespace weft::mds
