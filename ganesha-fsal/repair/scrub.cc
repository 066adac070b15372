// Repairer: the copies of a file that nobody writes are compared; what differs is told, and made
// equal if it is known which copy is right.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "ganesha-fsal/repair/mend_parts.h"
#include "ganesha-fsal/repair/repairer.h"

namespace weft::mds {

// What one file's scrub goes by.
struct Repairer::Scrub {
  FileId file = 0;
  ScrubHow how;
  PinnedFile pinned;
  std::uint64_t change = 0;  // of the inode, when it began
};

Result<ScrubOutcome> Repairer::scrub(FileId file, const ScrubHow& how) {
  {
    const MutexLock lock(mutex_);
    if (!busy_.insert(file).second) return fail(Errc::kBusy, "the file is being repaired");
  }
  auto outcome = scrub_copies(file, how);
  const MutexLock lock(mutex_);
  busy_.erase(file);
  return outcome;
}

Result<ScrubOutcome> Repairer::scrub_copies(FileId file, const ScrubHow& how) {
  ScrubOutcome out;
  auto map = parts_.names.layout(file);
  if (!map) return pass(map);
  if (!*map || (*map)->copies.size() < 2) return ScrubOutcome{.is = ScrubOutcome::Is::kSingle};
  const auto written = ScrubOutcome{.is = ScrubOutcome::Is::kWritten};
  if (parts_.written(file)) return written;
  auto attributes = parts_.names.getattr(file);
  if (!attributes) return pass(attributes);
  auto pinned = parts_.pin(file);
  if (!pinned) return pass(pinned);
  Scrub scrub{file, how, std::move(*pinned), attributes->change};
  const std::size_t stripes = scrub.pinned.map.copies.front().ds_ids.size();
  for (std::size_t stripe = 0; stripe < stripes; ++stripe) {
    auto done = scrub_stripe(scrub, stripe, out);
    if (!done) return pass(done);
    if (!*done) return written;
  }
  if (!out.findings.empty()) out.is = ScrubOutcome::Is::kDiffered;
  return out;
}

bool Repairer::is_still(const Scrub& scrub) const {
  const auto now = parts_.names.getattr(scrub.file);
  const auto map = parts_.names.layout(scrub.file);
  return now && now->change == scrub.change && map && *map && **map == scrub.pinned.map &&
         !parts_.written(scrub.file);
}

// False: it is being written.
Result<bool> Repairer::scrub_stripe(const Scrub& scrub, std::size_t stripe, ScrubOutcome& out) {
  const layout::LayoutMap& map = scrub.pinned.map;
  const auto current = current_at(map, stripe);
  if (current.size() < 2) return true;
  const bool chosen = std::ranges::find(current, scrub.how.from) != current.end();
  auto source = chosen ? scrub.how.from : source_of(map, scrub.pinned.leads, stripe);
  if (!source) return pass(source);
  std::vector<std::uint32_t> equal{*source};
  std::vector<ScrubFinding> differ;
  for (const std::uint32_t ds_id : current) {
    if (ds_id == *source) continue;
    auto found = differing(scrub, stripe, ds_id, *source, out);
    if (!found) return pass(found);
    if (found->differing_bytes > 0) {  // it may have been written meanwhile
      found = differing(scrub, stripe, ds_id, *source, out);
      if (!found) return pass(found);
    }
    if (!is_still(scrub)) return false;
    if (found->differing_bytes == 0) {
      equal.push_back(ds_id);
    } else {
      differ.push_back({.file = scrub.file,
                        .ds_id = ds_id,
                        .source = *source,
                        .differing_bytes = found->differing_bytes,
                        .stripe = static_cast<std::uint32_t>(stripe),
                        .extents = std::move(found->differing)});
    }
  }
  for (ScrubFinding& finding : differ) finding.majority = equal.size() > 1;
  if (differ.size() == 2 && !chosen) {
    auto outvoted = ask_third(scrub, stripe, differ, out);
    if (!outvoted) return pass(outvoted);
  }
  for (ScrubFinding& finding : differ) {
    // Of two copies nothing says which is the damaged one.
    if (!scrub.how.only_tell && (finding.majority || chosen)) {
      auto mended = mend_difference(scrub, stripe, finding);
      if (!mended) return pass(mended);
    }
    spdlog::warn("event=scrub_differs file={:x} ds={} from={} bytes={} by={} mended={}",
                 finding.file, finding.ds_id, finding.source, finding.differing_bytes,
                 chosen             ? "administrator"
                 : finding.majority ? "majority"
                                    : "nobody",
                 finding.mended);
    out.findings.push_back(finding);
  }
  return true;
}

// Both others differ from the leader's copy: when they are equal, it is that one which is wrong.
Result<> Repairer::ask_third(const Scrub& scrub, std::size_t stripe,
                             std::vector<ScrubFinding>& differ, ScrubOutcome& out) {
  auto between = differing(scrub, stripe, differ[1].ds_id, differ[0].ds_id, out);
  if (!between) return pass(between);
  if (between->differing_bytes > 0) return {};
  differ.pop_back();
  std::swap(differ[0].ds_id, differ[0].source);
  differ[0].majority = true;
  return {};
}

control::Resync Repairer::scrub_job(const Scrub& scrub, std::size_t stripe, std::uint32_t ds_id,
                                    std::uint32_t source) const {
  const layout::LayoutMap& map = scrub.pinned.map;
  control::Resync job{.object = parts_.names.object_of(scrub.file, map),
                      .source = source,
                      .epoch = map.object_epoch,
                      .extents = {{0, kMaxFileSize}}};
  for (std::size_t copy = 0; copy < map.copies.size(); ++copy) {
    if (map.copies[copy].ds_ids[stripe] == ds_id) set_striping(job, map, copy, stripe);
  }
  return job;
}

Result<control::ResyncProgress> Repairer::differing(const Scrub& scrub, std::size_t stripe,
                                                    std::uint32_t ds_id, std::uint32_t source,
                                                    ScrubOutcome& out) {
  control::Resync job = scrub_job(scrub, stripe, ds_id, source);
  job.report_only = true;
  auto number = begin_job(RepairKind::kScrub, scrub.file, ds_id, job);
  if (!number) return pass(number);
  auto at = finish_job(ds_id, *number);
  if (!at) return pass(at);
  out.compared_bytes += at->compared_bytes;
  return at;
}

Result<> Repairer::mend_difference(const Scrub& scrub, std::size_t stripe, ScrubFinding& finding) {
  auto uncut = parts_.keep_uncut(scrub.file);
  if (!uncut) return pass(uncut);
  if (!is_still(scrub)) return fail(Errc::kBusy, "the file was changed meanwhile");
  control::Resync job = scrub_job(scrub, stripe, finding.ds_id, finding.source);
  auto number = begin_job(RepairKind::kScrub, scrub.file, finding.ds_id, job);
  if (!number) return pass(number);
  auto at = finish_job(finding.ds_id, *number, scrub.file);
  if (!at) return pass(at);
  finding.mended = true;
  return {};
}

}  // namespace weft::mds
