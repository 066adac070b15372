// Times as the metadata store keeps them: nanoseconds since 1970, from 1677 to 2262.
//
// Threading: pure functions.
#pragma once

#include <cstdint>
#include <limits>

namespace weft::mds {

constexpr std::int64_t kNsPerSecond = 1'000'000'000;

// A client's time (RFC 8881 section 3.3.1, nfstime4). What is beyond the range is its end, as of
// Linux's file systems; nanoseconds that are no part of a second are 0.
[[nodiscard]] constexpr std::int64_t time_ns(std::int64_t seconds, std::int64_t nanoseconds) {
  using Limits = std::numeric_limits<std::int64_t>;
  if (nanoseconds < 0 || nanoseconds >= kNsPerSecond) nanoseconds = 0;
  if (seconds >= Limits::max() / kNsPerSecond) return Limits::max();
  if (seconds <= Limits::min() / kNsPerSecond) return Limits::min();
  return seconds * kNsPerSecond + nanoseconds;
}

}  // namespace weft::mds
