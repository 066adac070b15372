// A channel's deadlines: how often it looks whether one is over, and whether it is.
//
// Threading: pure functions.
#pragma once

#include <algorithm>
#include <chrono>
#include <initializer_list>

#include "rpc/base/clock.h"

namespace weft::rpc {

constexpr std::chrono::milliseconds kLongestTick{1000};
// Of a draining close: how long the peer has to take what is queued, and to close its own end. One
// that lost its power never does, and a server that stops waits for all of its connections.
constexpr std::chrono::milliseconds kDrainDeadline{3000};

// An eighth of the shortest deadline, so that none is late by more: 5 ms to kLongestTick. Zero is
// no deadline.
[[nodiscard]] inline std::chrono::milliseconds tick_interval(
    std::initializer_list<std::chrono::milliseconds> deadlines) {
  std::chrono::milliseconds shortest = 8 * kLongestTick;
  for (const auto deadline : deadlines) {
    if (deadline.count() > 0) shortest = std::min(shortest, deadline);
  }
  return std::clamp(shortest / 8, std::chrono::milliseconds{5}, kLongestTick);
}

// Whether what has been so since `since` has been so for longer than that; the epoch is not so.
[[nodiscard]] inline bool is_over(TimePoint since, std::chrono::milliseconds deadline,
                                  TimePoint now) {
  return since != TimePoint{} && now - since > deadline;
}

}  // namespace weft::rpc
