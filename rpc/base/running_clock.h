// A clock that leaves out the time in which its thread did not run: the process was stopped, the
// machine paused, or the processor taken.
//
// It is for deadlines of what others owe us. While the thread does not run their answers wait here
// unread, and by the machine's clock all of them would be late at once when it goes on. So it is
// while they wait for something else of ours, which whoever calls tick() says.
//
// Threading: one thread, which calls tick() regularly, or woken() whenever a timer of its has
// ended.
//
// Ownership: the Clock given to it outlives it.
#pragma once

#include "rpc/base/clock.h"

namespace weft {

class RunningClock {
 public:
  // A tick that comes later than this, after its period, says that the thread did not run.
  static constexpr Nanoseconds kLate = std::chrono::seconds(1);

  // `period`: how often tick() is called, if it is.
  explicit RunningClock(Nanoseconds period = {}, const Clock& clock = system_clock())
      : clock_(clock), period_(period) {}

  // Goes back only at a tick() or woken() that leaves something out, by that.
  [[nodiscard]] TimePoint now() const { return clock_.now() - not_run_; }

  // A time of the clock it was made with, as this one has it.
  [[nodiscard]] TimePoint at(TimePoint time) const { return time - not_run_; }

  // Leaves out what passed since the last tick: beyond a period if this one is late, and all of it
  // if what others owe us waits here (`waits`). Returns now().
  TimePoint tick(bool waits = false) {
    const TimePoint at = clock_.now();
    if (last_ != TimePoint{} && (waits || at - last_ > period_ + kLate)) {
      not_run_ += at - last_ - (waits ? Nanoseconds{0} : period_);
    }
    last_ = at;
    return now();
  }

  // Leaves out by how much this is later than `due`, when a timer was to end by now(). Several
  // timers that end late for one reason leave it out once. Whether that was so.
  bool woken(TimePoint due) {
    const Nanoseconds late = now() - due;
    if (late <= kLate) return false;
    not_run_ += late;
    return true;
  }

 private:
  const Clock& clock_;
  const Nanoseconds period_;
  Nanoseconds not_run_{0};
  TimePoint last_{};
};

}  // namespace weft
