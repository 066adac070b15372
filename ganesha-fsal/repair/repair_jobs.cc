#include "ganesha-fsal/repair/repair_jobs.h"

namespace weft::mds {

std::string_view to_string(RepairKind kind) {
  switch (kind) {
    case RepairKind::kResync: return "resync";
    case RepairKind::kCompare: return "compare";
    case RepairKind::kScrub: return "scrub";
  }
  return "unknown";
}

std::uint64_t RepairJobs::begin(RepairKind kind, FileId file, std::uint32_t ds_id,
                                std::uint32_t source) {
  const MutexLock lock(mutex_);
  const std::uint64_t number = ++last_;
  running_[number] = {
      {.number = number, .kind = kind, .file = file, .ds_id = ds_id, .source = source}, now_(), {}};
  return number;
}

void RepairJobs::progress(std::uint64_t number, const control::ResyncProgress& at) {
  const MutexLock lock(mutex_);
  const auto found = running_.find(number);
  if (found == running_.end()) return;
  Running& running = found->second;
  // A data server that was restarted begins again, and so do its numbers.
  const auto grown = [](std::uint64_t now, std::uint64_t before) {
    return now > before ? now - before : 0;
  };
  totals_.compared_bytes += grown(at.compared_bytes, running.at.compared_bytes);
  totals_.differing_bytes += grown(at.differing_bytes, running.at.differing_bytes);
  totals_.copied_bytes += grown(at.copied_bytes, running.at.copied_bytes);
  running.at = at;
}

void RepairJobs::end(std::uint64_t number, bool done) {
  const MutexLock lock(mutex_);
  const auto found = running_.find(number);
  if (found == running_.end()) return;
  if (!done) {
    ++totals_.failed;
  } else if (found->second.job.kind == RepairKind::kResync) {
    ++totals_.resynced;
  } else {
    ++totals_.compared;
  }
  running_.erase(found);
}

std::vector<RepairJob> RepairJobs::running() const {
  const auto now = now_();
  const MutexLock lock(mutex_);
  std::vector<RepairJob> out;
  for (const auto& [number, running] : running_) {
    RepairJob job = running.job;
    job.total_bytes = running.at.total_bytes;
    job.compared_bytes = running.at.compared_bytes;
    job.copied_bytes = running.at.copied_bytes;
    job.age = std::chrono::duration_cast<std::chrono::milliseconds>(now - running.since);
    const double seconds = std::chrono::duration<double>(job.age).count();
    if (seconds > 0) {
      const double rate = static_cast<double>(job.compared_bytes) / seconds;
      job.bytes_per_second = static_cast<std::uint64_t>(rate);
      if (rate > 0 && job.total_bytes > job.compared_bytes) {
        const auto left = static_cast<double>(job.total_bytes - job.compared_bytes);
        job.remaining = std::chrono::milliseconds(static_cast<std::int64_t>(left / rate * 1000));
      }
    }
    out.push_back(job);
  }
  return out;
}

RepairTotals RepairJobs::totals() const {
  const MutexLock lock(mutex_);
  return totals_;
}

}  // namespace weft::mds
