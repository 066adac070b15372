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

#include "ganesha-fsal/files/grants.h"
#include "ganesha-fsal/files/phase.h"
#include "ganesha-fsal/files/size_asks.h"
#include "ganesha-fsal/files/unstable_writes.h"
#include "ganesha-fsal/meta/schema/types.h"

namespace weft::mds {

// What is to be done with files without anybody asking. The table finds the files of each.
enum class Due : std::uint8_t {
  kMend,    // a pending cut, or a size in doubt: whenever data servers may be asked
  kCommit,  // written through this server and not committed
};
inline constexpr std::size_t kDues = 2;

struct FileState {
  static constexpr Clock::time_point kNever = Clock::time_point::max();

  Phase phase;
  SizeState size;
  UnstableWrites unstable;

  [[nodiscard]] bool idle() const { return phase.idle() && size.idle() && unstable.idle(); }
  // From when on; kNever: nothing of that kind is to be done.
  [[nodiscard]] Clock::time_point due(Due what) const {
    switch (what) {
      case Due::kMend: return phase.uncut || size.doubt != 0 ? Clock::time_point::min() : kNever;
      case Due::kCommit: return unstable.idle() ? kNever : unstable.commit_at;
    }
    return kNever;
  }
};

}  // namespace weft::mds
