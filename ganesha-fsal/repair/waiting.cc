// Repairer: what the repair of one copy waits for.
#include <fmt/format.h>

#include <algorithm>

#include "ganesha-fsal/repair/repairer.h"

namespace weft::mds {
namespace {

constexpr std::uint64_t kMib = 1U << 20;

}  // namespace

std::string Repairer::state_of(FileId file, std::uint32_t ds_id) const {
  if (!is_here(ds_id)) return "waits: its data server is away";
  const std::uint64_t rate = rate_;
  for (const RepairJob& job : jobs_.running()) {
    if (job.file != file || job.ds_id != ds_id) continue;
    const std::string limit =
        rate == 0 ? "" : fmt::format(", at most {} MiB/s at one server", rate / kMib);
    return fmt::format("under way from data server {}, {} of {} MiB compared{}", job.source,
                       job.compared_bytes / kMib, job.total_bytes / kMib, limit);
  }
  const auto now = Clock::now();
  const auto later = [now](Clock::time_point when, const std::string& why) {
    const auto left = std::chrono::ceil<std::chrono::seconds>(when - now);
    return fmt::format("waits {} s more: {}", left.count(), why);
  };
  const MutexLock lock(mutex_);
  const auto off = put_off_.find({ds_id, file});
  if (off != put_off_.end() && now < off->second.not_before) {
    return later(off->second.not_before, off->second.why);
  }
  const auto at = destinations_.find(ds_id);
  if (at != destinations_.end() && now < at->second.not_before) {
    return later(at->second.not_before, at->second.waits_for);
  }
  if (busy_.contains(file)) return "waits: its file is being worked at";
  if (at != destinations_.end() && at->second.running >= parts_.limits.per_server) {
    return fmt::format("waits: {} of at most {} repairs run at its data server", at->second.running,
                       parts_.limits.per_server);
  }
  return "waits for its turn";
}

}  // namespace weft::mds
