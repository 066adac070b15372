#include "ganesha-fsal/files/writer_journal.h"

#include <spdlog/spdlog.h>

#include "ganesha-fsal/files/results.h"

namespace weft::mds {
namespace {

constexpr std::size_t kMostOfASweep = 4096;
constexpr std::chrono::seconds kPatience{10};  // with a sweep
constexpr Clock::time_point kEver = FileState::kNever - Clock::duration(1);

}  // namespace

Result<std::size_t> WriterJournal::open() {
  const auto found = parts_.names.written_files(0, SIZE_MAX);
  if (!found) return failed(found);
  for (const WrittenFile& file : *found) {
    const FileTable::Changing record(parts_.files, file.id);
    record->journal.recorded = true;
    record->journal.inherited = true;
  }
  recorded_ = found->size();
  return found->size();
}

Result<WriterJournal::Begun> WriterJournal::begin(FileId file, const Namespace::MakeLayout& make) {
  bool durable = false;
  {
    FileTable::Changing record(parts_.files, file);
    const bool swept =
        record.wait_for(kPatience, [](const FileState& state) { return !state.journal.ending; });
    if (!swept) return fail(Errc::kBusy, "the file's record in the journal is being ended");
    JournalState& state = record->journal;
    if (!state.recorded) {
      if (recorded_ >= parts_.most) return fail(Errc::kBusy, "too many files are being written");
      state.recorded = true;  // even if it is not known whether the store has it
      ++recorded_;
    }
    ++state.pins;
    state.end_at.reset();
    durable = state.durable;
  }
  Pin pin(*this, file);
  if (durable) {
    auto map = layout_map(parts_.files, parts_.names, file);
    if (!map) return failed(map);
    if (!*map) return fail(Errc::kStale, "removed");
    return Begun{std::move(**map), std::move(pin)};
  }
  const auto seen = parts_.files.map(file);
  auto map = parts_.names.begin_writing(file, make);
  if (!map) return failed(map);
  if (!seen.map) parts_.files.keep_map(file, seen.changes, *map);
  FileTable::Changing(parts_.files, file)->journal.durable = true;
  return Begun{std::move(*map), std::move(pin)};
}

Result<> WriterJournal::ensure(FileId file) {
  {
    const FileTable::Looking record(parts_.files, file);
    const JournalState& state = record->journal;
    if ((state.durable || state.inherited) && !state.ending) return {};
  }
  const auto map = layout_map(parts_.files, parts_.names, file);
  if (!map) return failed(map);
  if (!*map) return {};
  const auto begun = begin(file, no_layout);
  return begun ? Result<>() : failed(begun);
}

void WriterJournal::unpin(FileId file) {
  const FileTable::Changing record(parts_.files, file);
  --record->journal.pins;
}

bool WriterJournal::doubt(FileId file) {
  const FileTable::Changing record(parts_.files, file);
  JournalState& state = record->journal;
  if (!state.recorded) return false;
  state.doubted = parts_.files.number();
  state.retry_at = {};
  state.end_at.reset();
  return true;
}

bool WriterJournal::inherited(FileId file) const {
  return FileTable::Looking(parts_.files, file)->journal.inherited;
}

std::optional<WriterJournal::Unsettled> WriterJournal::unsettled(FileId file) const {
  const FileTable::Looking record(parts_.files, file);
  const JournalState& state = record->journal;
  if (state.settled()) return std::nullopt;
  return Unsettled{file, state.inherited, state.doubted};
}

std::vector<WriterJournal::Unsettled> WriterJournal::due(bool inherited_too,
                                                         std::size_t limit) const {
  std::vector<Unsettled> found;
  const auto add = [&](Due kind) {
    for (const FileId file : parts_.files.due(kind, parts_.files.now(), limit - found.size())) {
      if (const auto what = unsettled(file)) found.push_back(*what);
    }
  };
  add(Due::kSettle);
  if (inherited_too) add(Due::kInherited);
  return found;
}

void WriterJournal::settled(const Unsettled& what) {
  const FileTable::Changing record(parts_.files, what.file);
  if (what.inherited) record->journal.inherited = false;
  if (record->journal.doubted == what.doubted) record->journal.doubted = 0;
}

void WriterJournal::not_settled(FileId file) {
  FileTable::Changing(parts_.files, file)->journal.retry_at = parts_.files.now() + parts_.retry;
}

std::uint64_t WriterJournal::doubted(const Unsettled& what) {
  if (what.doubted != 0) return what.doubted;
  const FileTable::Changing record(parts_.files, what.file);
  JournalState& state = record->journal;
  if (state.doubted == 0) state.doubted = parts_.files.number();
  return state.doubted;
}

void WriterJournal::compares(const Unsettled& what) {
  const FileTable::Changing record(parts_.files, what.file);
  if (record->journal.comparing == 0) record->journal.comparing = what.doubted;
}

bool WriterJournal::compared(const Unsettled& what) {
  const FileTable::Changing record(parts_.files, what.file);
  return std::exchange(record->journal.comparing, 0) == what.doubted;
}

void WriterJournal::retry_all() {
  for (const Due kind : {Due::kSettle, Due::kInherited}) {
    for (const FileId file : parts_.files.due(kind, kEver, SIZE_MAX)) {
      FileTable::Changing(parts_.files, file)->journal.retry_at = {};
    }
  }
}

void WriterJournal::sweep() {
  const auto now = parts_.files.now();
  for (;;) {
    const auto due = parts_.files.due(Due::kEndRecord, now, kMostOfASweep);
    std::vector<FileId> ending;
    for (const FileId file : due) {
      const FileTable::Changing record(parts_.files, file);
      if (record->due(Due::kEndRecord) > now) continue;
      JournalState& state = record->journal;
      if (!state.end_at) state.end_at = now + parts_.linger;
      if (*state.end_at > now) continue;
      state.ending = true;  // so nobody begins
      ending.push_back(file);
    }
    const auto ended = ending.empty() ? Result<>{} : parts_.names.end_writing(ending);
    for (const FileId file : ending) {
      const FileTable::Changing record(parts_.files, file);
      record->journal.ending = false;
      if (!ended) continue;
      record->journal = {.pins = record->journal.pins};
      --recorded_;
    }
    if (!ended) spdlog::warn("event=journal_not_swept error=\"{}\"", ended.error().describe());
    if (!ended || due.size() < kMostOfASweep) return;
  }
}

}  // namespace weft::mds
