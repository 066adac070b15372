#include "ganesha-fsal/files/phase.h"

#include "ganesha-fsal/cluster/wait_limit.h"
#include "ganesha-fsal/files/file_table.h"
#include "rpc/base/error.h"

namespace weft::mds {

Result<> Phase::check_not_alone() const {
  switch (alone) {
    case Alone::kNobody: return {};
    case Alone::kCutting: return fail(Errc::kBusy, "the file is being truncated");
    case Alone::kPunching: return fail(Errc::kBusy, "a hole is being made in the file");
    case Alone::kMoving: return fail(Errc::kBusy, "the file is being moved");
    case Alone::kGrowing: return fail(Errc::kBusy, "the file is on its way to its objects");
    case Alone::kComparing: return fail(Errc::kBusy, "the file's objects are being looked at");
  }
  return {};
}

Result<> Phase::check_open() const {
  if (auto free = check_not_alone(); !free) return free;
  if (uncut) return fail(Errc::kBusy, "an earlier truncate is still to be done");
  if (growing) return fail(Errc::kBusy, "the file is on its way to its objects");
  return {};
}

void WritingKind::end(FileTable& table, FileId file) {
  const FileTable::Changing record(table, file);
  --record->phase.writing;
}

void LearningKind::end(FileTable& table, FileId file) {
  const FileTable::Changing record(table, file);
  --record->phase.learning;
}

void ReportedKind::end(FileTable& table, FileId file) {
  const FileTable::Changing record(table, file);
  --record->phase.reported;
}

void AloneKind::end(FileTable& table, FileId file) {
  const FileTable::Changing record(table, file);
  record->phase.alone = Phase::Alone::kNobody;
}

Result<Writing> enter_writing(FileTable& table, FileId file) {
  const FileTable::Changing record(table, file);
  if (auto open = record->phase.check_open(); !open) return pass(open);
  ++record->phase.writing;
  return Writing(table, file);
}

Result<Learning> enter_learning(FileTable& table, FileId file) {
  const FileTable::Changing record(table, file);
  if (auto open = record->phase.check_open(); !open) return pass(open);
  ++record->phase.learning;
  return Learning(table, file);
}

Result<Reported> enter_reported(FileTable& table, FileId file) {
  const FileTable::Changing record(table, file);
  if (record->phase.alone == Phase::Alone::kCutting || record->phase.uncut) {
    return fail(Errc::kBusy, "the file is being truncated");
  }
  ++record->phase.reported;
  return Reported(table, file);
}

Result<Alone> be_alone(FileTable& table, FileId file, Phase::Alone why, Clock::time_point until,
                       IfAlone others) {
  bool ended = false;
  {
    FileTable::Changing record(table, file);
    auto free = record->phase.check_not_alone();
    if (!free && others == IfAlone::kRefuse) return pass(free);
    const bool waits = !free || record->phase.keeps_waiting(why);
    if (waits && until != kDoNotWait && !WaitLimit::may_wait()) {
      return fail(Errc::kBusy, "too many requests wait for data servers");
    }
    const auto nobody = [](const FileState& state) { return !state.phase.is_alone(); };
    if (!record.wait_until(until, nobody)) {
      return fail(Errc::kBusy, record->phase.check_not_alone().error().text);
    }
    record->phase.alone = why;  // from here on nothing new begins
    ended = record.wait_until(
        until, [why](const FileState& state) { return !state.phase.keeps_waiting(why); });
  }
  Alone alone(table, file);
  if (!ended) return fail(Errc::kBusy, "the file is being written, or its size learned");
  return alone;
}

}  // namespace weft::mds
