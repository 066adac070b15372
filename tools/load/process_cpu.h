// CPU time and machine idleness from /proc, for figures per CPU second.
//
// Threading: pure reads.
#pragma once

#include <sys/types.h>

#include <span>

#include "rpc/base/error.h"

namespace weft::load {

// User and system time, in seconds, of all threads of these processes since they started.
// kNotFound when one of them is gone.
[[nodiscard]] Result<double> cpu_seconds(std::span<const pid_t> processes);

// Idle time of the machine since boot as a share of all CPU time, as two running totals.
struct IdleTotals {
  double idle_s = 0;
  double all_s = 0;
};
[[nodiscard]] IdleTotals idle_totals();

}  // namespace weft::load
