#include "ganesha-fsal/cluster/size_reports.h"

#include <utility>

namespace weft::mds {

void SizeReports::add(control::ReportSize report, Done<void> done) {
  if (files_.written_again(report)) return done({});
  auto uncut = files_.arrived(report);
  bool refused = false;
  bool start = false;
  {
    const MutexLock lock(mutex_);
    refused = waiting_.size() >= max_waiting_;
    if (!refused) {
      waiting_.push_back({report, std::move(uncut), std::move(done)});
      start = !std::exchange(draining_, true);
    }
  }
  if (refused) return done(fail(Errc::kBusy, "too many size reports"));
  if (start && !workers_.post([this] { drain(); })) {
    // The workers are busy beyond their limit, or stopping: whoever waits is told to try again.
    std::vector<Waiting> turned_away;
    {
      const MutexLock lock(mutex_);
      turned_away = std::exchange(waiting_, {});
      draining_ = false;
    }
    for (Waiting& one : turned_away) one.done(fail(Errc::kBusy, "too much work"));
  }
}

void SizeReports::drain() {
  while (true) {
    std::vector<Waiting> batch;
    {
      const MutexLock lock(mutex_);
      if (waiting_.empty()) {
        draining_ = false;
        return;
      }
      const std::size_t size = std::min(waiting_.size(), kBatch);
      const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(size);
      batch.assign(std::move_iterator(waiting_.begin()), std::move_iterator(end));
      waiting_.erase(waiting_.begin(), end);
    }
    std::vector<control::ReportSize> reports;
    reports.reserve(batch.size());
    for (const Waiting& one : batch) reports.push_back(one.report);
    const Result<> outcome = files_.grow(reports);
    for (Waiting& one : batch) {
      one.uncut.reset();
      one.done(outcome);
    }
  }
}

}  // namespace weft::mds
