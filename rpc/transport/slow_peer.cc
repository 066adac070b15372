#include "rpc/transport/slow_peer.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace weft::rpc {

bool SlowPeer::look(TimePoint now, const Rules& rules, const Seen& seen) {
  const std::chrono::duration<double> passed = now - measured_at_;
  if (passed < rules.every) return false;
  measured_at_ = now;
  const std::chrono::duration<double> whole = rules.whole;
  const double least = static_cast<double>(rules.least_rate) * passed.count();
  const double of_queue =
      static_cast<double>(std::exchange(queued_, seen.queued)) * (passed / whole);
  const auto received =
      static_cast<double>(seen.received - std::exchange(received_, seen.received));
  const auto taken = static_cast<double>(seen.taken - std::exchange(taken_, seen.taken));
  const bool slow =
      (seen.sends && received < least) || (seen.takes && taken < std::max(least, of_queue));
  if (!slow || !seen.memory_short) {
    slow_since_ = {};
  } else if (slow_since_ == TimePoint{}) {
    slow_since_ = now;
  }
  return slow_since_ != TimePoint{} && now - slow_since_ >= rules.patience;
}

}  // namespace weft::rpc
