// Simulated time as the C library's clocks tell it.
//
// Threading: any.
#pragma once

#include <time.h>

#include "tests/simulation/world/scheduler.h"

namespace weft::sim {

// What the clocks said when the run began. Monotonic ones are not 0: code takes that for "never".
constexpr Ns kMonotonicStart = 1'000 * kSecond;
constexpr Ns kRealStart = 1'800'000'000 * kSecond;

constexpr bool is_real_time(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
}
constexpr Ns start_of(clockid_t clock) {
  return is_real_time(clock) ? kRealStart : kMonotonicStart;
}
constexpr Ns to_ns(const timespec& time) { return time.tv_sec * kSecond + time.tv_nsec; }
// Of the run, from a time of that clock.
constexpr Ns from_timespec(clockid_t clock, const timespec& time) {
  return to_ns(time) - start_of(clock);
}
constexpr timespec to_timespec(clockid_t clock, Ns at) {
  const Ns total = at + start_of(clock);
  return {total / kSecond, total % kSecond};
}

}  // namespace weft::sim
