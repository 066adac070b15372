#include "dataserver/ring/disk_waits.h"

namespace weft::ds {

namespace {

thread_local boost::intrusive::list<DiskWait, boost::intrusive::constant_time_size<false>> waits;

}  // namespace

DiskWait::DiskWait(TimePoint since) : since_(since) { waits.push_back(*this); }

std::optional<TimePoint> DiskWait::oldest() {
  if (waits.empty()) return std::nullopt;
  return waits.front().since_;
}

}  // namespace weft::ds
