#include "ganesha-fsal/files/mirror_state.h"

namespace weft::mds {

bool FenceState::take(Clock::time_point now) {
  if (is != Is::kNone || retry_at > now) return false;
  is = Is::kUnderWay;
  return true;
}

void FenceState::ended(bool holds, Clock::time_point retry) {
  is = holds ? Is::kHolds : Is::kNone;
  retry_at = retry;
}

void Renumbered::apply(std::vector<std::uint8_t>& leads) const {
  if (stripe < leads.size() && leads[stripe] == before) leads[stripe] = after;
}

}  // namespace weft::mds
