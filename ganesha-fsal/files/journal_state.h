// What is in memory of a file's record in the writers' journal: a part of the file's record in
// memory (file_state.h). writer_journal.h says what it is for.
#pragma once

#include <cstdint>
#include <optional>

#include "ganesha-fsal/files/grants.h"

namespace weft::mds {

struct JournalState {
  unsigned pins = 0;
  bool recorded = false;  // in the store there is a record, or may be
  bool durable = false;   // and it was made, or taken over, by this run
  bool inherited = false;
  bool asked = false;         // inherited, and its size has been in doubt for that
  bool ending = false;        // a sweep is taking it away
  std::uint64_t doubted = 0;  // number of the last doubt (FileTable::number()); 0: not in doubt
  // For which doubt the file's copies are being compared; 0: they are not.
  std::uint64_t comparing = 0;
  Clock::time_point retry_at{};
  std::optional<Clock::time_point> end_at;  // a sweep has seen that nobody needs it

  [[nodiscard]] bool settled() const { return !inherited && doubted == 0; }
  [[nodiscard]] bool idle() const { return pins == 0 && !recorded; }
};

}  // namespace weft::mds
