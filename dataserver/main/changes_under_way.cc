#include "dataserver/main/changes_under_way.h"

namespace weft::ds {

ChangesUnderWay::Token ChangesUnderWay::enter(const layout::ObjectId& object, std::uint64_t epoch) {
  auto in_flight = in_flight_.enter();
  const MutexLock lock(all_->mutex);
  const auto at = all_->changes.insert(
      all_->changes.end(),
      {.object = object, .epoch = epoch, .since = clock_.now(), .told = false});
  // What is in flight ends last: who waits for that finds nothing here.
  return {&*at, [all = all_, at, in_flight = std::move(in_flight)](const void*) mutable {
            {
              const MutexLock over(all->mutex);
              all->changes.erase(at);
            }
            in_flight.reset();
          }};
}

std::vector<ChangesUnderWay::Change> ChangesUnderWay::take_late() {
  std::vector<Change> late;
  const TimePoint now = clock_.now();
  const MutexLock lock(all_->mutex);
  for (Change& change : all_->changes) {
    if (now - change.since < kLong) break;
    if (!std::exchange(change.told, true)) late.push_back(change);
  }
  return late;
}

}  // namespace weft::ds
