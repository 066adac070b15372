// What goes on beside the data path, in a line each, for people. What others named is as they named
// it, but that names of data servers are shortened: who prints a line makes it printable.
//
// Threading: pure functions.
#pragma once

#include <string>

#include "ganesha-fsal/admin/source.h"

namespace weft::cli {

[[nodiscard]] std::string group_text(const mds::GroupReport& group);
[[nodiscard]] std::string rebalance_text(const mds::RebalanceReport& rebalance);
[[nodiscard]] std::string stuck_text(const mds::StuckReport& stuck);
[[nodiscard]] std::string skipped_text(const mds::SkippedReport& skipped);
[[nodiscard]] std::string moving_text(const mds::MovingReport& moving);

}  // namespace weft::cli
