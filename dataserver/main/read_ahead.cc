#include "dataserver/main/read_ahead.h"

namespace weft::ds {

using rpc::control::Range;

void ReadAhead::expect(const std::vector<Range>& ranges) {
  const MutexLock lock(mutex_);
  if (stopped_) return;
  for (const Range& range : ranges) waiting_.push_back(range);
  while (waiting_.size() > kWaiting) {
    waiting_.pop_front();
    ++counts_.dropped;
  }
  begin_more();
}

void ReadAhead::stop() {
  const MutexLock lock(mutex_);
  stopped_ = true;
  waiting_.clear();
}

ReadAhead::Counts ReadAhead::counts() const {
  const MutexLock lock(mutex_);
  return counts_;
}

void ReadAhead::begin_more() {
  for (; under_way_ < kAtOnce && !waiting_.empty(); ++under_way_) {
    ++counts_.reads;
    IoRing& ring = *rings_[next_ring_++ % rings_.size()];
    ring.post([this, range = waiting_.front()] { read(range); });
    waiting_.pop_front();
  }
}

void ReadAhead::read(const Range& range) {
  {
    const MutexLock lock(mutex_);
    if (stopped_) {
      --under_way_;
      return;
    }
  }
  store_.read(range.object, range.offset, static_cast<std::uint32_t>(range.length),
              [this](const Result<ReadResult>& result) { ended(result); });
}

void ReadAhead::ended(const Result<ReadResult>& result) {
  const MutexLock lock(mutex_);
  if (result) counts_.bytes += result->payload.size();
  --under_way_;
  begin_more();
}

}  // namespace weft::ds
