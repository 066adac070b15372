// When fences whose keys are gone are forgotten: an hour after the keys changed last, so that a
// step back does no harm, and while the metadata server is in touch. One that is not may use a key
// that is not here: once that comes back, the handles below those fences are good again.
//
// Threading: one thread.
#pragma once

#include "rpc/base/clock.h"

namespace weft::ds {

class FenceForgetting {
 public:
  static constexpr std::chrono::hours kAfter{1};

  // Also when they were read for the first time.
  void keys_changed(TimePoint now) { at_ = now + kAfter; }
  // True once for each change. `in_touch`: registered, or without a metadata server.
  [[nodiscard]] bool due(TimePoint now, bool in_touch) {
    if (!in_touch || now < at_) return false;
    at_ = TimePoint::max();
    return true;
  }

 private:
  TimePoint at_ = TimePoint::max();
};

}  // namespace weft::ds
