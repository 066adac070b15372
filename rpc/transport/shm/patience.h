// How long to poll for the peer's next record before sleeping: as long as it seems to pay.
//
// Polling saves the kernel's wake-up (microseconds, tens of them between processors of a virtual
// machine) when the answer is near, and wastes a processor when it is not. So it follows a moving
// average of how long waits have been: short ones are polled for, twice the average at most, long
// ones are slept through. On one processor the peer cannot run while we poll: whoever shares one
// with it must not ask.
//
// Threading: one thread. Pure: times come from the caller.
#pragma once

#include <algorithm>
#include <chrono>

namespace weft::rpc {

class Patience {
 public:
  using Duration = std::chrono::nanoseconds;

  // Polls for `most` at most; 0: never.
  explicit Patience(Duration most) : most_(most), average_(4 * most_) {}

  // Whether there is any: where not, nobody needs to measure.
  [[nodiscard]] bool ever() const { return most_.count() > 0; }
  [[nodiscard]] Duration budget() const {
    if (!ever() || average_ > 2 * most_) return Duration{0};
    return std::min(most_, 2 * average_ + Duration{1000});
  }
  // A wait is over, polled for or slept through.
  void waited(Duration time) {
    // One long pause between two bursts must not count for more than a few short waits.
    average_ = (7 * average_ + std::clamp(time, Duration{0}, 8 * most_)) / 8;
  }

 private:
  const Duration most_;
  Duration average_;
};

}  // namespace weft::rpc
