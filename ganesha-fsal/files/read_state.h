// How reads of a file with several copies were shared in the layouts that are out: a part of the
// file's record (file_state.h). read_shares.h says what it is for.
#pragma once

#include <optional>
#include <vector>

#include "ganesha-fsal/files/grants.h"
#include "layout/read_choice.h"

namespace weft::mds {

struct ReadState {
  static constexpr std::size_t kMost = 4;

  std::vector<layout::ReadParts> out;  // different ones, the oldest first; kMost at most
  Clock::time_point look_at{};         // whether they are right still
  std::optional<Clock::time_point> wrong_since;
  // After they were recalled they are not again before `not_before`; the pause grows each time.
  Clock::duration pause{};
  Clock::time_point not_before{};

  [[nodiscard]] bool idle() const { return out.empty() && pause == Clock::duration::zero(); }
  // Precondition: not idle. That they were recalled is remembered for as long again.
  [[nodiscard]] Clock::time_point due() const { return out.empty() ? not_before + pause : look_at; }
};

}  // namespace weft::mds
