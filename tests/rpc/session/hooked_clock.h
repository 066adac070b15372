// A clock that a test sets, and that lets something happen while somebody asks what time it is.
#pragma once

#include <functional>
#include <utility>

#include "rpc/base/clock.h"

namespace weft::rpc::test {

class HookedClock final : public Clock {
 public:
  [[nodiscard]] TimePoint now() const override {
    const TimePoint time = manual_.now();
    ++asked_;
    if (hook_ && --left_ == 0) std::exchange(hook_, nullptr)();
    return time;
  }
  [[nodiscard]] std::int64_t wall_ns() const override { return manual_.wall_ns(); }
  [[nodiscard]] int asked() const { return asked_; }  // how often for the time
  void advance(Nanoseconds by) { manual_.advance(by); }
  // Once, when the time is asked for the nth time from now on.
  void at(int nth, std::move_only_function<void()> hook) {
    left_ = nth;
    hook_ = std::move(hook);
  }

 private:
  ManualClock manual_;
  mutable int asked_ = 0;
  mutable int left_ = 0;
  mutable std::move_only_function<void()> hook_;
};

}  // namespace weft::rpc::test
