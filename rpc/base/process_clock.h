// A clock that leaves out the time in which its process did not run: it was stopped, or its machine
// was paused.
//
// It is for what many others owe a process. While that does not run, what they have sent waits here
// unread, and by the machine's clock all of them are late at once when it goes on. (What one thread
// waits for: running_clock.h.)
//
// It knows by being asked: of what passes between two calls of now() more than kMost does not
// count. So somebody asks several times a second, or it goes slow. After a stop it stands for kRest
// more, in which what has come is read, and connections that others have given up are made anew.
//
// Threading: any thread.
//
// Ownership: the Clock given to it outlives it.
#pragma once

#include <algorithm>
#include <optional>

#include "rpc/base/clock.h"
#include "rpc/base/mutex.h"

namespace weft {

class ProcessClock final : public Clock {
 public:
  static constexpr Nanoseconds kMost = std::chrono::seconds(1);
  static constexpr Nanoseconds kStop = std::chrono::seconds(5);  // longer than a busy machine takes
  static constexpr Nanoseconds kRest = std::chrono::seconds(5);

  explicit ProcessClock(const Clock& clock) : clock_(clock) {}

  [[nodiscard]] TimePoint now() const override {
    const MutexLock lock(mutex_);
    const TimePoint at = clock_.now();  // in here: what one caller leaves out no other has counted
    if (!asked_) stands_until_ = time_ = at;
    const Nanoseconds passed = asked_ ? at - *asked_ : Nanoseconds(0);
    asked_ = at;
    if (passed >= kStop) stands_until_ = at + kRest;
    if (at >= stands_until_) time_ += std::min(passed, kMost);
    return time_;
  }
  [[nodiscard]] std::int64_t wall_ns() const override { return clock_.wall_ns(); }

 private:
  const Clock& clock_;
  mutable Mutex mutex_;
  mutable std::optional<TimePoint> asked_ WEFT_GUARDED_BY(mutex_);
  mutable TimePoint time_ WEFT_GUARDED_BY(mutex_);
  mutable TimePoint stands_until_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft
