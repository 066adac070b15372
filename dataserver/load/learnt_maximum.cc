#include "dataserver/load/learnt_maximum.h"

#include <algorithm>
#include <cmath>

namespace weft::ds {

namespace {
constexpr double kHalfLifeSeconds = 3600;
}

void LearntMaximum::observe(std::uint64_t rate, std::chrono::nanoseconds span) {
  const double seconds = std::chrono::duration<double>(span).count();
  const double floor = static_cast<double>(floor_);
  value_ = floor + (value_ - floor) * std::exp2(-std::max(0.0, seconds) / kHalfLifeSeconds);
  value_ = std::max(value_, static_cast<double>(rate));
}

}  // namespace weft::ds
