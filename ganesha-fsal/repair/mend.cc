// Repairer: one object that missed writes, or one file's copies.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "ganesha-fsal/repair/mend_parts.h"
#include "ganesha-fsal/repair/repairer.h"
#include "layout/relocation.h"
#include "layout/striping.h"
#include "rpc/control/unreadable.h"

namespace weft::mds {
namespace {

// The place in the copy's list of servers, which is the stripe's in every copy.
Result<std::size_t> stripe_of(const layout::LayoutMap& map, const StaleObject& object) {
  const auto& ds_ids = map.copies.at(object.copy).ds_ids;
  const auto at = std::ranges::find(ds_ids, object.ds_id);
  if (at == ds_ids.end()) return fail(Errc::kCorrupt, "a stale object that is not in the map");
  return static_cast<std::size_t>(at - ds_ids.begin());
}

// All of the file but what is to stay as it was found at the stripe. Of a finding with more extents
// than it lists the others are compared: who has died may have written there, and copies that are
// read must not differ.
std::vector<control::Extent> all_but(const std::vector<ScrubFinding>& findings,
                                     std::size_t stripe) {
  constexpr std::uint64_t kBlock = 4096;  // of what findings are made of
  std::vector<DirtyExtent> kept;
  for (const ScrubFinding& finding : findings) {
    if (finding.stripe != stripe) continue;
    for (const control::Extent& of : finding.extents) {
      const std::uint64_t end = (of.offset + of.length + kBlock - 1) / kBlock * kBlock;
      kept.push_back({of.offset / kBlock * kBlock, std::min(end, kMaxFileSize)});
    }
  }
  std::ranges::sort(kept, {}, &DirtyExtent::offset);
  std::vector<control::Extent> extents;
  std::uint64_t at = 0;
  for (const DirtyExtent& range : kept) {
    if (range.offset > at) extents.push_back({at, range.offset - at});
    at = std::max(at, range.end);
  }
  if (at < kMaxFileSize) extents.push_back({at, kMaxFileSize - at});
  return extents;
}

bool has(const std::vector<std::uint32_t>& ids, std::uint32_t id) {
  return std::ranges::find(ids, id) != ids.end();
}

}  // namespace

bool is_current(const layout::LayoutMap& map, std::uint32_t ds_id) {
  const auto seat = layout::seat_of(map, ds_id);
  return seat && map.copies[seat->copy].state_of(seat->stripe) == layout::CopyState::kCurrent;
}

std::vector<std::uint32_t> current_at(const layout::LayoutMap& map, std::size_t stripe) {
  std::vector<std::uint32_t> ids;
  for (const layout::Copy& copy : map.copies) {
    if (copy.state_of(stripe) == layout::CopyState::kCurrent) ids.push_back(copy.ds_ids[stripe]);
  }
  return ids;
}

Result<std::uint32_t> source_of(const layout::LayoutMap& map,
                                const std::vector<std::uint8_t>& leads, std::size_t stripe) {
  if (stripe >= leads.size() || leads[stripe] >= map.copies.size()) {
    return fail(Errc::kBusy, "nobody leads the stripe");
  }
  const layout::Copy& copy = map.copies[leads[stripe]];
  if (copy.state_of(stripe) != layout::CopyState::kCurrent) {
    return fail(Errc::kBusy, "the stripe's leader has no current copy");
  }
  return copy.ds_ids[stripe];
}

void set_striping(control::Resync& job, const layout::LayoutMap& map, std::size_t copy,
                  std::size_t stripe) {
  job.stripe_unit = map.stripe_unit;
  job.servers = static_cast<std::uint32_t>(map.copies[copy].ds_ids.size());
  job.first_index = map.copies[copy].first_index;
  job.server = static_cast<std::uint32_t>(stripe);
}

bool Repairer::is_here(std::uint32_t ds_id) const { return has(parts_.here(), ds_id); }

Result<bool> Repairer::leader_has(FileId file, const layout::LayoutMap& map, std::size_t stripe,
                                  std::uint32_t leader) {
  const control::Stat stat{parts_.names.object_of(file, map)};
  auto at_leader = parts_.servers.ask(leader, stat);
  if (!at_leader) return pass(at_leader);
  if (at_leader->exists) return true;
  std::vector<std::uint32_t> without;
  Result<> all;
  bool found = false;
  for (const std::uint32_t ds_id : current_at(map, stripe)) {
    if (ds_id == leader) continue;
    auto there = parts_.servers.ask(ds_id, stat);
    if (!there) {
      if (!parts_.lost(ds_id)) all = pass(there);
    } else if (!there->exists) {
      without.push_back(ds_id);
    } else if (there->size > 0) {
      found = true;
    }
  }
  if (!found) return all ? Result<bool>(false) : pass(all);
  // Last, so that none of the others leads after it.
  without.push_back(leader);
  for (const std::uint32_t ds_id : without) {
    auto now = parts_.servers.ask(ds_id, stat);  // it may just have been written
    if (!now) return pass(now);
    if (now->exists) continue;
    if (auto told = parts_.no_object(file, ds_id); !told) return pass(told);
  }
  return fail(Errc::kBusy, "copies whose objects are not there are to be mended first");
}

Result<> Repairer::mend(const StaleObject& stale, bool& at_server) {
  for (unsigned round = 0; round < parts_.limits.rounds; ++round) {
    auto done = mend_once(stale, at_server);
    // Removed, or mended before.
    if (!done && (done.error() == Errc::kStale || done.error() == Errc::kNotFound)) return {};
    if (!done) return pass(done);
    if (*done) return {};
  }
  return fail(Errc::kBusy, "it goes on missing writes");
}

Result<bool> Repairer::mend_once(const StaleObject& stale, bool& at_server) {
  auto pinned = parts_.pin(stale.id);
  if (!pinned) return pass(pinned);
  auto begun = parts_.names.begin_resync(stale);
  if (!begun) return pass(begun);
  if (!*begun) return true;
  const layout::LayoutMap& map = (*begun)->map;
  auto stripe = stripe_of(map, (*begun)->object);
  if (!stripe) return pass(stripe);
  auto source = source_of(map, pinned->leads, *stripe);
  if (!source) return pass(source);
  if (auto taken = take_back_writes(**begun, *stripe, *source); !taken) return pass(taken);
  // Now no write of before is at one copy and not yet at another.
  auto there = leader_has(stale.id, map, *stripe, *source);
  if (!there) return pass(there);
  if (!*there) {
    auto bytes = has_all_there_is(**begun, *stripe);
    if (!bytes) return pass(bytes);
    if (*bytes) return take_for_current(**begun, *source);
  }

  control::Resync job{.object = parts_.names.object_of(stale.id, map),
                      .source = *source,
                      .least_epoch = map.object_epoch};
  for (const DirtyExtent& extent : (*begun)->object.dirty) {
    job.extents.push_back({extent.offset, extent.end - extent.offset});
  }
  set_striping(job, map, stale.copy, *stripe);
  auto done = runner_.run(RepairKind::kResync, stale.id, stale.ds_id, job);
  if (!done) {
    // It missed more meanwhile, which fenced the job off: once more, with that.
    auto after = parts_.names.layout(stale.id);
    if (after && *after && (*after)->object_epoch != map.object_epoch) return false;
    auto unreadable = shrink_to_unreadable(**begun, *stripe, job);
    if (!unreadable) return pass(unreadable);
    if (*unreadable) {
      return fail(
          Errc::kIo,
          fmt::format("data server {} cannot read what no other current copy has", *source));
    }
    at_server = is_here(*source);
    return pass(done);
  }

  // While the leader is pinned it changes only when it is excluded, and then it is not current.
  auto now = parts_.names.layout(stale.id);
  if (!now) return pass(now);
  if (!*now) return fail(Errc::kStale, "no layout");
  if (!has(current_at(**now, *stripe), *source)) return false;
  auto cleared = parts_.names.clear_stale((*begun)->object);
  if (cleared && *cleared) {
    const auto move = parts_.names.move_of(stale.id);
    const bool moved = move && *move && (*move)->to == stale.ds_id;
    spdlog::log(moved ? spdlog::level::debug : spdlog::level::info,
                "event=copy_current file={:x} ds={} epoch={}", stale.id, stale.ds_id,
                map.object_epoch);
  }
  return cleared;
}

// Of an object of which no current copy has bytes. The file is to have some there, and the copy
// has; of several that do it was written last. What is behind the file's end may have been cut off:
// a cut to nothing leaves no object where there was none.
Result<bool> Repairer::has_all_there_is(const ResyncBegun& begun, std::size_t stripe) {
  auto attributes = parts_.names.getattr(begun.object.id);
  if (!attributes) return pass(attributes);
  const layout::Copy& own = begun.map.copies[begun.object.copy];
  auto striping = layout::Striping::make(
      begun.map.stripe_unit, static_cast<std::uint32_t>(own.ds_ids.size()), own.first_index);
  if (!striping) return pass(striping);
  if (striping->object_end(static_cast<std::uint32_t>(stripe), attributes->size) == 0) return false;
  const control::Stat stat{parts_.names.object_of(begun.object.id, begun.map)};
  auto here = parts_.servers.ask(begun.object.ds_id, stat);
  if (!here) return pass(here);
  if (here->size == 0) return false;
  for (const layout::Copy& copy : begun.map.copies) {
    const std::uint32_t ds_id = copy.ds_ids[stripe];
    const bool other = copy.holds(stripe) && ds_id != begun.object.ds_id;
    if (!other || copy.state_of(stripe) == layout::CopyState::kCurrent) continue;
    auto there = parts_.servers.ask(ds_id, stat);
    if (!there && parts_.lost(ds_id)) continue;
    if (!there) return pass(there);
    if (there->size > 0 && there->mtime_ns > here->mtime_ns) {
      return fail(Errc::kBusy,
                  fmt::format("what data server {} has was written later, and no current copy has "
                              "the object",
                              ds_id));
    }
  }
  return true;
}

// What was acknowledged is at every copy that was current then. So the current ones have lost the
// object; or else the bytes here nobody was told of, and they are as right as none. Nothing was
// written since the copy gets what is written: the source would have an object.
Result<bool> Repairer::take_for_current(const ResyncBegun& begun, std::uint32_t source) {
  const StaleObject& object = begun.object;
  auto cleared = parts_.names.clear_stale(object);
  if (!cleared || !*cleared) return cleared;
  spdlog::warn("event=object_lost file={:x} ds={} current_instead={}", object.id, source,
               object.ds_id);
  parts_.doubt(object.id);  // how far the file goes, and what more has to be left out
  if (auto told = parts_.no_object(object.id, source); !told) return pass(told);
  return true;
}

// All but what the source cannot read is made equal, and need not be looked at again. False: the
// job failed of something else, or its data server is of a version that cannot say.
Result<bool> Repairer::shrink_to_unreadable(const ResyncBegun& begun, std::size_t stripe,
                                            const control::Resync& job) {
  const StaleObject& object = begun.object;
  auto told = parts_.servers.ask(object.ds_id, control::GetUnreadable{job.job});
  if (!told || told->extents.empty()) return false;
  auto now = parts_.names.layout(object.id);
  if (!now) return pass(now);
  if (!*now) return fail(Errc::kStale, "no layout");
  if (!has(current_at(**now, stripe), job.source)) return false;
  std::vector<DirtyExtent> left;
  std::uint64_t bytes = 0;
  for (const control::Extent& extent : told->extents) {
    left.push_back({extent.offset, extent.offset + extent.length});
    bytes += extent.length;
  }
  spdlog::warn("event=source_unreadable file={:x} source={} ds={} offset={} bytes={}", object.id,
               job.source, object.ds_id, left.front().offset, bytes);
  auto shrunk = parts_.names.shrink_stale(object, left);
  if (!shrunk) return pass(shrunk);
  return true;
}

// From now on what is written to the stripe is brought to the copy that is being mended. All that
// is written goes through the leader, which is pinned. It is fenced first: then no write from
// before is on its way to another copy, which would refuse it, and be taken for one that missed it.
// Another current copy whose server is gone leads nobody before it is back, and the fence, which is
// kept for it, is in force there first.
Result<> Repairer::take_back_writes(const ResyncBegun& begun, std::size_t stripe,
                                    std::uint32_t leader) {
  std::vector<std::uint32_t> others;
  std::vector<std::uint32_t> gone;
  for (const std::uint32_t ds_id : current_at(begun.map, stripe)) {
    if (ds_id != leader) (is_here(ds_id) ? others : gone).push_back(ds_id);
  }
  const layout::ObjectId object = parts_.names.object_of(begun.object.id, begun.map);
  const control::Fence fence{.object = object, .epoch = begun.map.object_epoch};
  auto fenced = parts_.servers.fence_and_wait(std::span(&leader, 1), fence);
  if (!fenced) return fenced;
  if (!gone.empty()) {
    if (auto kept = parts_.servers.fence_and_wait(gone, fence); !kept) {
      spdlog::debug("event=fence_kept file={:x} error=\"{}\"", begun.object.id,
                    kept.error().describe());
    }
  }
  if (!others.empty()) fenced = parts_.servers.fence_and_wait(others, fence);
  if (!fenced) return fenced;
  others.push_back(leader);
  for (const std::uint32_t ds_id : others) {
    auto forgotten = parts_.servers.ask(ds_id, control::ForgetMissed{object, begun.object.ds_id});
    if (!forgotten) return forgotten;
  }
  return {};
}

Result<> Repairer::copy(const CopyJob& what) {
  const auto until = parts_.clock.now() + parts_.limits.copy_give_up;
  const auto seat = layout::seat_of(*what.map, what.source);
  if (!seat) return fail(Errc::kInvalid, "the source has nothing of the file");
  control::Resync job{.object = parts_.names.object_of(what.file, *what.map),
                      .source = what.source,
                      .epoch = what.map->object_epoch,
                      .extents = {{0, kMaxFileSize}}};
  set_striping(job, *what.map, seat->copy, seat->stripe);
  auto number = runner_.begin(RepairKind::kResync, what.file, what.to, job);
  if (!number) return pass(number);
  auto finished = runner_.finish(what.to, *number, /*uncut=*/0, until);
  return finished ? Result<>() : pass(finished);
}

Result<> Repairer::compare_copies(FileId file) {
  auto uncut = parts_.keep_uncut(file);
  if (!uncut) return pass(uncut);
  // Before the map is read: what is current by then is compared.
  auto doubted = parts_.names.doubt_stale(file);
  if (!doubted && doubted.error() == Errc::kStale) return {};
  if (!doubted) return doubted;
  auto pinned = parts_.pin(file);
  if (!pinned && pinned.error() == Errc::kStale) return {};
  if (!pinned) return pass(pinned);
  const layout::LayoutMap& map = pinned->map;
  std::vector<Running> running;
  Result<> outcome;
  const auto findings = parts_.findings(file);
  const std::size_t stripes = map.copies.front().ds_ids.size();
  for (std::size_t stripe = 0; stripe < stripes; ++stripe) {
    const auto current = current_at(map, stripe);
    if (current.size() < 2) continue;
    const auto extents = all_but(findings, stripe);
    if (extents.empty()) continue;
    auto source = source_of(map, pinned->leads, stripe);
    Result<bool> there = source ? leader_has(file, map, stripe, *source) : pass(source);
    if (!there && outcome) outcome = pass(there);
    if (!there || !*there) continue;
    // One that fails, since its server is gone, does not hold up the others.
    for (std::size_t copy = 0; copy < map.copies.size(); ++copy) {
      const std::uint32_t ds_id = map.copies[copy].ds_ids[stripe];
      if (ds_id == *source || !has(current, ds_id)) continue;
      // Not fenced off: writers of older epochs, if there are any, are still good.
      control::Resync job{.object = parts_.names.object_of(file, map),
                          .source = *source,
                          .epoch = map.object_epoch,
                          .extents = extents};
      set_striping(job, map, copy, stripe);
      auto number = runner_.begin(RepairKind::kCompare, file, ds_id, job);
      if (number) running.push_back({*number, ds_id, *source});
      if (!number && outcome) outcome = pass(number);
    }
  }
  for (const Running& job : running) {
    auto finished = runner_.finish(job.ds_id, job.number, file);
    if (!finished && outcome) outcome = pass(finished);
    if (finished && finished->differing_bytes > 0) {
      spdlog::warn("event=compare_changed file={:x} ds={} from={} bytes={}", file, job.ds_id,
                   job.source, finished->differing_bytes);
    }
  }
  return outcome;
}

}  // namespace weft::mds
