// What goes on beside the data path, in a line each, for people. What others named is as they named
// it: who prints a line makes it printable.
//
// Threading: pure functions.
#pragma once

#include <string>
#include <vector>

#include "ganesha-fsal/admin/source.h"
#include "tools/weft/problem.h"

namespace weft::cli {

// Adds what an administrator should know of scrubs and parity groups, a sentence each.
void scrub_problems(const mds::ScrubReport& scrub, std::vector<Problem>& out);

[[nodiscard]] std::string group_text(const mds::GroupReport& group);
[[nodiscard]] std::string rebalance_text(const mds::RebalanceReport& rebalance);
[[nodiscard]] std::string stuck_text(const mds::StuckReport& stuck);
[[nodiscard]] std::string skipped_text(const mds::SkippedReport& skipped);
[[nodiscard]] std::string moving_text(const mds::MovingReport& moving);

}  // namespace weft::cli
