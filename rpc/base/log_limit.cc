#include "rpc/base/log_limit.h"

#include <algorithm>
#include <utility>

namespace weft {

std::optional<std::uint64_t> LogLimit::admit() {
  const TimePoint now = clock_.now();
  const MutexLock lock(mutex_);
  if (!since_) since_ = now;
  const std::int64_t steps = std::max<std::int64_t>(0, (now - *since_) / kForOne);
  const auto earned = static_cast<std::uint64_t>(steps);
  if (lines_ + earned >= kAtOnce) {
    lines_ = kAtOnce;
    since_ = now;
  } else {
    lines_ += earned;
    *since_ += steps * kForOne;
  }
  if (lines_ == 0) {
    ++left_out_;
    return std::nullopt;
  }
  --lines_;
  return std::exchange(left_out_, 0);
}

}  // namespace weft
