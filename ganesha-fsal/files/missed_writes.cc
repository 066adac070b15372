// Mirrors: what data servers and clients tell of writes that a copy missed.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "ganesha-fsal/files/mirrors.h"
#include "layout/layout_servers.h"

namespace weft::mds {
namespace {

using layout::CopyState;

constexpr DirtyExtent kWhole{0, kMaxFileSize};

std::vector<DirtyExtent> to_dirty(const std::vector<control::Extent>& extents) {
  std::vector<DirtyExtent> dirty;
  for (const auto& extent : extents) {
    if (extent.offset >= kMaxFileSize || extent.length == 0) continue;
    const std::uint64_t length = std::min(extent.length, kMaxFileSize - extent.offset);
    dirty.push_back({extent.offset, extent.offset + length});
  }
  return dirty;
}

// It cannot do what another may be able to.
bool of_the_disk(const Error& error) {
  return error == Errc::kNoSpace || error == Errc::kQuota || error == Errc::kIo ||
         error == Errc::kCorrupt || error == Errc::kReadOnly;
}

// Whether all of the file is dirty at the data server.
Result<bool> misses_all(const Namespace& names, FileId file, std::uint32_t ds_id) {
  const StaleObject before{.id = file - 1, .copy = UINT32_MAX};
  auto first = names.stale_objects(ds_id, before, 1);
  if (!first) return pass(first);
  return !first->empty() && first->front().id == file &&
         first->front().dirty == std::vector{kWhole};
}

bool made_elsewhere(const layout::LayoutMap& map, std::size_t stripe, const Failures& failures) {
  return std::ranges::any_of(map.copies, [&](const layout::Copy& copy) {
    return copy.state_of(stripe) == CopyState::kCurrent &&
           std::ranges::find(failures, copy.ds_ids[stripe], &Failure::ds_id) == failures.end();
  });
}

}  // namespace

Result<> Mirrors::missed_by_client(FileId file, std::uint32_t ds_id) {
  return missed_all(file, ds_id, Cause::kNoAnswer);
}

Result<> Mirrors::rolled_back(FileId file, std::uint32_t ds_id) {
  return missed_all(file, ds_id, Cause::kStore);
}

Result<> Mirrors::no_object(FileId file, std::uint32_t ds_id) {
  return missed_all(file, ds_id, Cause::kNoObject);
}

Result<> Mirrors::missed_all(FileId file, std::uint32_t ds_id, Cause cause) {
  auto map = map_of(file);
  if (!map) return pass(map);
  const auto place = place_of(*map, ds_id);
  if (!place) return {};  // the file was moved away from it
  if (map->copies.size() == 1) {
    return fail(Errc::kLayoutTryLater, fmt::format("data server {} has the only copy", ds_id));
  }
  const CopyState state = map->copies[place->copy].state_of(place->stripe);
  // Who has a layout of since the copy began to be repaired does not write it himself
  // (flex_grant.h). Who has an earlier one is refused, at the source first: what he wrote there is
  // in what the repair makes equal.
  if (cause == Cause::kNoAnswer && state == CopyState::kResyncing) {
    auto all = misses_all(parts_.names, file, ds_id);
    if (!all) return pass(all);
    if (*all) return {};
  }
  if (state == CopyState::kCurrent) {
    if (auto left = answer(leave_out(file, *map, *place, cause)); !left) return left;
  } else {
    // What is known of what it lacks may be less than this.
    const Loss loss{.place = *place,
                    .ds_id = ds_id,
                    .led = false,
                    .written = cause == Cause::kNoAnswer || layout::written_by_clients(*map),
                    .dirty = {kWhole},
                    .reporter = {}};
    if (auto marked = answer(mark(file, loss)); !marked) return marked;
  }
  static_cast<void>(advance_now(file, ds_id));
  return {};
}

// Whoever told it acknowledges nothing because of it, so nothing is waited for.
Result<> Mirrors::own_copy_missed(FileId file, const layout::LayoutMap& map, Place place) {
  if (map.copies[place.copy].state_of(place.stripe) == CopyState::kCurrent) {
    if (!other_is_here(map, place)) {
      for (std::size_t copy = 0; copy < map.copies.size(); ++copy) {
        const layout::Copy& of = map.copies[copy];
        if (copy != place.copy && of.state_of(place.stripe) == CopyState::kCurrent &&
            parts_.reach(of.ds_ids[place.stripe]) == Reach::kWait) {
          return fail(Errc::kBusy, "the other copy's server was lost a moment ago");
        }
      }
      return fail(Errc::kNotFound, "no other current copy is there");
    }
    if (auto left = answer(leave_out(file, map, place, Cause::kDisk)); !left) return left;
  }
  static_cast<void>(advance_now(file, map.copies[place.copy].ds_ids[place.stripe]));
  return {};
}

// As the data server tells of its own copy when it is a write that fails.
Result<> Mirrors::change_failed(FileId file, DirtyExtent changed, const Failures& failures) {
  for (const Failure& failure : failures) {
    if (!of_the_disk(failure.error)) return std::unexpected(failure.error);
  }
  auto map = map_of(file);
  if (!map) return pass(map);
  for (const Failure& failure : failures) {
    const auto place = place_of(*map, failure.ds_id);
    if (place && !made_elsewhere(*map, place->stripe, failures)) {
      return std::unexpected(failure.error);
    }
  }
  for (const Failure& failure : failures) {
    const auto place = place_of(*map, failure.ds_id);
    if (!place) continue;  // the file was moved away from it
    const CopyState state = map->copies[place->copy].state_of(place->stripe);
    spdlog::warn("event=change_failed file={:x} ds={} error=\"{}\"", file, failure.ds_id,
                 failure.error.describe());
    if (state == CopyState::kCurrent) {
      if (auto left = answer(leave_out(file, *map, *place, Cause::kDisk)); !left) return left;
    } else {
      const Loss loss{.place = *place,
                      .ds_id = failure.ds_id,
                      .led = false,
                      .written = layout::written_by_clients(*map),
                      .dirty = {changed},
                      .reporter = {}};
      if (auto marked = answer(mark(file, loss)); !marked) return marked;
    }
    map = map_of(file);
    if (!map) return pass(map);
  }
  return {};
}

// A write failed at the reporter's store, and it cannot say that the other copy has it. If that one
// is current and here, it is the better of the two: the reporter's is left out, and its client goes
// on there. Success: nothing better is there than the reporter's.
Result<> Mirrors::reporter_failed(FileId file, const layout::LayoutMap& map, Place from,
                                  Place other) {
  const layout::Copy& copy = map.copies[other.copy];
  if (copy.state_of(other.stripe) != CopyState::kCurrent) return {};
  switch (parts_.reach(copy.ds_ids[other.stripe])) {
    case Reach::kGone: return {};
    case Reach::kWait: return fail(Errc::kBusy, "the other copy's server was lost a moment ago");
    case Reach::kHere: break;
  }
  if (auto left = own_copy_missed(file, map, from); !left) return left;
  return fail(Errc::kFenced, "the reporter's own copy is left out");
}

Result<> Mirrors::copy_missed(std::uint32_t reporter, const control::CopyMissed& missed) {
  const FileId file = missed.object.fileid;
  if (missed.object.fsid != parts_.names.superblock().fsid) {
    return fail(Errc::kStale, "of another file system");
  }
  auto map = map_of(file);
  if (!map) return pass(map);
  if (missed.object.generation != map->object_generation) return fail(Errc::kStale, "moved");
  const auto from = place_of(*map, reporter);
  if (!from) return fail(Errc::kFenced, "the file was moved away from the reporter");
  if (missed.ds_id == reporter) return own_copy_missed(file, *map, *from);
  auto place = place_of(*map, missed.ds_id);
  // It has left the reporter's stripe, and has come to another of the file's since.
  if (place && place->stripe != from->stripe) place.reset();
  const auto leads = leads_of(file);
  if (!leads.empty() && leads[from->stripe] != from->copy) {
    return fail(Errc::kFenced, "another copy leads");
  }
  if (!place) {  // the file was moved away from it: nothing is missed
    if (map->copies[from->copy].state_of(from->stripe) == CopyState::kCurrent) return {};
    return fail(Errc::kFenced, "the reporter's own copy is not current");
  }
  // A fence of those who wrote before the file came in doubt may be at the other copy already. The
  // write is refused, and may be at the reporter's: it is to be in what is compared.
  const bool current = map->copies[place->copy].state_of(place->stripe) == CopyState::kCurrent;
  if (current && missed.object_epoch < map->object_epoch && parts_.journal.unsettled(file)) {
    parts_.journal.doubt(file);
    return fail(Errc::kFenced, "the reporter's handle is older than the file's doubt");
  }
  if (missed.failed_here) {
    if (auto believed = reporter_failed(file, *map, *from, *place); !believed) return believed;
  }
  const Loss loss{
      .place = *place,
      .ds_id = missed.ds_id,
      .led = false,
      .written = layout::written_by_clients(*map),
      .dirty = layout::written_by_clients(*map) ? std::vector{kWhole} : to_dirty(missed.extents),
      .reporter = reporter};
  // Marked once while it waits, and then with all that is asked for at last.
  if (map->copies[place->copy].state_of(place->stripe) == CopyState::kStale) {
    if (auto done = answer(advance(file, *map, *place)); !done) return done;
  }
  if (auto marked = answer(mark(file, loss)); !marked) return marked;
  return answer(advance_now(file, missed.ds_id));
}

}  // namespace weft::mds
