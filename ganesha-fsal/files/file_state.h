// What this server has in memory of one file: one record, whose parts belong to what is done with
// the file. Records are in a FileTable (file_table.h), which guards them with its locks.
//
// To add a part: a struct of plain data with idle(), true when nothing in it has to be remembered
// (a part that was never touched is idle); a member here, and its line in idle(). If something is
// to be done with the file later, by itself, give it a Due and say in due() when. Nothing of it may
// need a lock or a call out: who changes a record holds the lock of its shard.
//
// Invariants:
//  1. A record that is idle says nothing that one made anew would not.
//  2. due() depends on the record alone.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "ganesha-fsal/files/grants.h"
#include "ganesha-fsal/files/journal_state.h"
#include "ganesha-fsal/files/mirror_state.h"
#include "ganesha-fsal/files/phase.h"
#include "ganesha-fsal/files/read_state.h"
#include "ganesha-fsal/files/size_asks.h"
#include "ganesha-fsal/files/unstable_writes.h"
#include "ganesha-fsal/meta/schema/types.h"
#include "layout/layout_map.h"

namespace weft::mds {

// What is to be done with files without anybody asking. The table finds the files of each.
enum class Due : std::uint8_t {
  kMend,       // a pending cut, a growing file, or a size in doubt: when data servers may be asked
  kCommit,     // written through this server and not committed
  kRecall,     // a layout that was recalled and is not back in time
  kFence,      // a fence that failed, and is to be tried again
  kOwing,      // what leaders may owe to other copies is to be asked for
  kCopies,     // copies that are not current are to be looked at
  kReads,      // whether layouts for reading are shared as they should be
  kUnused,     // leaders that nobody needs
  kSettle,     // the journal: a writer died, in this run
  kInherited,  // or in an earlier one
  kEndRecord,  // its record is not needed any more
};
inline constexpr std::size_t kDues = 11;

struct FileState {
  static constexpr Clock::time_point kNever = Clock::time_point::max();

  Phase phase;
  SizeState size;
  UnstableWrites unstable;
  LayoutState layouts;
  MirrorState mirrors;
  JournalState journal;
  ReadState reads;
  // Grows when something is done that others may wait for, who look again then
  // (FileTable::await_progress()).
  std::uint64_t progress = 0;
  // The layout map, once it was read, until it changes (layout_maps.h). Does not keep the record.
  std::shared_ptr<const layout::LayoutMap> map;

  [[nodiscard]] bool idle() const { return phase.idle() && others_idle(); }
  // But for what is under way.
  [[nodiscard]] bool others_idle() const {
    return size.idle() && unstable.idle() && layouts.idle() && mirrors.idle() && journal.idle() &&
           reads.idle();
  }
  // Somebody writes it, with the leaders there are, or is being kept from it.
  [[nodiscard]] bool being_written() const { return mirrors.pins > 0 || layouts.written(); }
  // Leaders may be ahead of the other copies.
  [[nodiscard]] bool owes() const { return mirrors.owing != 0; }
  // There are leaders, and no reason why they should stay.
  [[nodiscard]] bool unused() const {
    return mirrors.unused() && !mirrors.idle() && !layouts.written();
  }
  // A record in the journal is to stay, or there is none.
  [[nodiscard]] bool record_needed() const {
    return !journal.recorded || journal.ending || journal.pins > 0 || !journal.settled() ||
           layouts.written() || !unstable.idle() || owes() || size.doubt != 0;
  }
  // From when on; kNever: nothing of that kind is to be done.
  [[nodiscard]] Clock::time_point due(Due what) const {
    switch (what) {
      case Due::kMend:
        return phase.uncut || phase.growing || size.doubt != 0 ? Clock::time_point::min() : kNever;
      case Due::kCommit: return unstable.idle() ? kNever : unstable.commit_at;
      case Due::kRecall: return layouts.grants.deadline().value_or(kNever);
      case Due::kFence: return layouts.fence_at().value_or(kNever);
      case Due::kOwing: return owes() && !being_written() ? mirrors.owing_due : kNever;
      case Due::kCopies:
        return mirrors.excluded.empty() || mirrors.pins > 0 ? kNever : mirrors.look_again;
      case Due::kReads: return reads.idle() ? kNever : reads.due();
      case Due::kUnused: return unused() ? Clock::time_point::min() : kNever;
      case Due::kSettle:
        return journal.doubted != 0 && !journal.inherited ? journal.retry_at : kNever;
      case Due::kInherited: return journal.inherited ? journal.retry_at : kNever;
      case Due::kEndRecord:
        return record_needed() ? kNever : journal.end_at.value_or(Clock::time_point::min());
    }
    return kNever;
  }
};

}  // namespace weft::mds
