// How often a channel looks whether one of its deadlines is over.
//
// Threading: a pure function.
#pragma once

#include <algorithm>
#include <chrono>
#include <initializer_list>

namespace weft::rpc {

constexpr std::chrono::milliseconds kLongestTick{1000};

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

}  // namespace weft::rpc
