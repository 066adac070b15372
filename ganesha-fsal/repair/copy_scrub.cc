#include "ganesha-fsal/repair/copy_scrub.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace weft::mds {
namespace {

constexpr FileId kMayBeCut = 0;
constexpr std::uint64_t kPiece = 1U << 20;  // of a job

// Whole pieces with what differs.
std::vector<control::Extent> pieces_of(const std::vector<control::Extent>& differing) {
  std::vector<control::Extent> extents;
  for (const control::Extent& of : differing) {
    const std::uint64_t end = of.offset + of.length;
    const std::uint64_t begin = of.offset / kPiece * kPiece;
    const std::uint64_t round = std::min((end + kPiece - 1) / kPiece * kPiece, kMaxFileSize);
    if (!extents.empty() && begin <= extents.back().offset + extents.back().length) {
      extents.back().length = std::max(round - extents.back().offset, extents.back().length);
    } else {
      extents.push_back({begin, round - begin});
    }
  }
  return extents;
}

}  // namespace

Result<ScrubOutcome> CopyScrub::run() {
  auto map = parts_.names.layout(file_);
  if (!map) return pass(map);
  if (!*map || (*map)->copies.size() < 2) return ScrubOutcome{.is = ScrubOutcome::Is::kSingle};
  const auto written = ScrubOutcome{.is = ScrubOutcome::Is::kWritten};
  if (parts_.written(file_)) return written;
  auto attributes = parts_.names.getattr(file_);
  if (!attributes) return pass(attributes);
  change_ = attributes->change;
  auto pinned = parts_.pin(file_);
  if (!pinned) return pass(pinned);
  pinned_.emplace(std::move(*pinned));
  const std::size_t stripes = pinned_->map.copies.front().ds_ids.size();
  for (std::size_t stripe = 0; stripe < stripes; ++stripe) {
    auto done = scrub_stripe(stripe);
    if (!done) return pass(done);
    if (!*done) return written;
  }
  if (!out_.findings.empty()) out_.is = ScrubOutcome::Is::kDiffered;
  return std::move(out_);
}

bool CopyScrub::is_unchanged() const {
  const auto now = parts_.names.getattr(file_);
  const auto map = parts_.names.layout(file_);
  return now && now->change == change_ && map && *map && **map == pinned_->map;
}

bool CopyScrub::is_still() const { return is_unchanged() && !parts_.written(file_); }

Result<bool> CopyScrub::scrub_stripe(std::size_t stripe) {
  const auto current = current_at(pinned_->map, stripe);
  if (current.size() < 2) return true;
  const bool chosen = std::ranges::find(current, how_.from) != current.end();
  auto source = chosen ? how_.from : source_of(pinned_->map, pinned_->leads, stripe);
  if (!source) return pass(source);
  auto compared = compare(stripe, *source);
  if (!compared) return pass(compared);
  if (!*compared) return false;
  std::vector<ScrubFinding>& differ = **compared;
  // The source and another are equal.
  const bool majority = current.size() > differ.size() + 1;
  for (ScrubFinding& finding : differ) finding.majority = majority;
  if (differ.size() == 2 && !chosen) {
    auto outvoted = ask_third(stripe, differ);
    if (!outvoted) return pass(outvoted);
  }
  for (ScrubFinding& finding : differ) {
    if (!finding.majority) continue;
    // Two copies that have lost it are equal, too.
    auto has = has_object(finding.source);
    if (!has) return pass(has);
    finding.majority = *has;
  }
  // Where the chosen data server has no current copy nothing is changed.
  const bool only_tell = how_.only_tell || (how_.from != 0 && !chosen);
  for (ScrubFinding& finding : differ) {
    // Of two copies nothing says which is the damaged one.
    if (!only_tell && (finding.majority || chosen)) {
      auto mended = mend(stripe, finding);
      if (!mended) return pass(mended);
    }
    spdlog::warn("event=scrub_differs file={:x} ds={} from={} bytes={} by={} mended={}",
                 finding.file, finding.ds_id, finding.source, finding.differing_bytes,
                 chosen             ? "administrator"
                 : finding.majority ? "majority"
                                    : "nobody",
                 finding.mended);
    out_.findings.push_back(finding);
  }
  return true;
}

Result<std::optional<std::vector<ScrubFinding>>> CopyScrub::compare(std::size_t stripe,
                                                                    std::uint32_t source) {
  std::vector<ScrubFinding> differ;
  for (const std::uint32_t ds_id : current_at(pinned_->map, stripe)) {
    if (ds_id == source) continue;
    auto found = differing(stripe, ds_id, source);
    if (!found) return pass(found);
    if (found->differing_bytes > 0) {  // it may have been written meanwhile
      found = differing(stripe, ds_id, source);
      if (!found) return pass(found);
    }
    if (!is_still()) return std::nullopt;
    if (found->differing_bytes == 0) continue;
    differ.push_back({.file = file_,
                      .ds_id = ds_id,
                      .source = source,
                      .differing_bytes = found->differing_bytes,
                      .stripe = static_cast<std::uint32_t>(stripe),
                      .extents = std::move(found->differing)});
  }
  return differ;
}

Result<bool> CopyScrub::has_object(std::uint32_t ds_id) const {
  auto there =
      parts_.servers.ask(ds_id, control::Stat{parts_.names.object_of(file_, pinned_->map)});
  if (!there) return pass(there);
  return there->exists;
}

// Both others differ from the leader's copy: when they are equal, it is that one which is wrong.
Result<> CopyScrub::ask_third(std::size_t stripe, std::vector<ScrubFinding>& differ) {
  auto between = differing(stripe, differ[1].ds_id, differ[0].ds_id);
  if (!between) return pass(between);
  if (between->differing_bytes > 0) return {};
  differ.pop_back();
  std::swap(differ[0].ds_id, differ[0].source);
  differ[0].majority = true;
  return {};
}

control::Resync CopyScrub::job(std::size_t stripe, std::uint32_t ds_id,
                               std::uint32_t source) const {
  const layout::LayoutMap& map = pinned_->map;
  control::Resync job{.object = parts_.names.object_of(file_, map),
                      .source = source,
                      .epoch = map.object_epoch,
                      .extents = {{0, kMaxFileSize}}};
  for (std::size_t copy = 0; copy < map.copies.size(); ++copy) {
    if (map.copies[copy].ds_ids[stripe] == ds_id) set_striping(job, map, copy, stripe);
  }
  return job;
}

Result<control::ResyncProgress> CopyScrub::differing(std::size_t stripe, std::uint32_t ds_id,
                                                     std::uint32_t source, std::uint64_t from) {
  control::Resync only_told = job(stripe, ds_id, source);
  only_told.extents = {{from, kMaxFileSize - from}};
  only_told.report_only = true;
  auto at = parts_.jobs.run(RepairKind::kScrub, file_, ds_id, only_told);
  if (at) out_.compared_bytes += at->compared_bytes;
  return at;
}

// What is written meanwhile goes through the leader, which brings it to the others.
Result<> CopyScrub::mend(std::size_t stripe, ScrubFinding& finding) {
  const auto leader = source_of(pinned_->map, pinned_->leads, stripe);
  if (!leader || *leader != finding.source) return mend_from_follower(stripe, finding);
  auto kept = parts_.keep_uncut(file_);
  if (!kept) return pass(kept);
  if (!is_still()) return fail(Errc::kBusy, "the file was changed meanwhile");
  control::Resync mending = job(stripe, finding.ds_id, finding.source);
  auto at = parts_.jobs.run(RepairKind::kScrub, file_, finding.ds_id, mending, file_);
  if (!at) return pass(at);
  finding.mended = true;
  return {};
}

// A source that does not lead may get what is written after the copy that is mended, which would
// lose it again: so nobody writes meanwhile, for the few pieces that are listed, and what else
// differs is looked for without keeping anybody away.
Result<> CopyScrub::mend_from_follower(std::size_t stripe, ScrubFinding& finding) {
  std::vector<control::Extent> listed = finding.extents;
  std::uint64_t left = finding.differing_bytes;
  while (left > 0 && !listed.empty()) {
    control::Resync mending = job(stripe, finding.ds_id, finding.source);
    mending.extents = pieces_of(listed);
    {
      auto kept = parts_.keep_unwritten(file_);
      if (!kept) return pass(kept);
      if (!is_unchanged()) return fail(Errc::kBusy, "the file was changed meanwhile");
      auto at = parts_.jobs.run(RepairKind::kScrub, file_, finding.ds_id, mending, kMayBeCut,
                                ResyncRunner::Ended::kSurely);
      if (!at) return pass(at);
    }
    for (const control::Extent& of : listed) left -= std::min(left, of.length);
    if (left == 0) break;
    const control::Extent& last = mending.extents.back();
    auto rest = differing(stripe, finding.ds_id, finding.source, last.offset + last.length);
    if (!rest) return pass(rest);
    listed = std::move(rest->differing);
    left = rest->differing_bytes;
  }
  finding.mended = true;
  return {};
}

}  // namespace weft::mds
