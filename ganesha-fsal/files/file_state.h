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
#include "ganesha-fsal/meta/schema/types.h"

namespace weft::mds {

// What is to be done with files without anybody asking. The table finds the files of each.
enum class Due : std::uint8_t {
  kMend,  // a pending cut, or a size in doubt: whenever data servers may be asked
};
inline constexpr std::size_t kDues = 1;

// How far the file goes, where that is not simply what the namespace says.
struct SizeState {
  // Number of the newest doubt of it (FileTable::number()), 0: none. An answer of the data servers
  // ends the doubt that it was asked for.
  std::uint64_t doubt = 0;
  bool guessed = false;            // while in doubt: answered with what is known
  bool cut_under_layouts = false;  // while layouts to write were out, and they still are

  [[nodiscard]] bool idle() const { return doubt == 0 && !cut_under_layouts; }
};

struct FileState {
  static constexpr Clock::time_point kNever = Clock::time_point::max();

  Phase phase;
  SizeState size;

  [[nodiscard]] bool idle() const { return phase.idle() && size.idle(); }
  // From when on; kNever: nothing of that kind is to be done.
  [[nodiscard]] Clock::time_point due(Due what) const {
    switch (what) {
      case Due::kMend: return phase.uncut || size.doubt != 0 ? Clock::time_point::min() : kNever;
    }
    return kNever;
  }
};

}  // namespace weft::mds
