// Mover: one move, from choosing a successor to the removal of what nobody needs.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "ganesha-fsal/repair/mover.h"
#include "layout/relocation.h"

namespace weft::mds {
namespace {

using layout::CopyState;

bool is_current(const layout::LayoutMap& map, std::uint32_t ds_id) {
  const auto seat = layout::seat_of(map, ds_id);
  return seat && map.copies[seat->copy].state_of(seat->stripe) == CopyState::kCurrent;
}

}  // namespace

void Mover::step(const Move& move, const Round& round) {
  if (const auto at = not_before_.find(move.id);
      at != not_before_.end() && at->second > Clock::now()) {
    return;
  }
  const auto done =
      move.stage == MoveStage::kFilling ? fill_or_finish(move, round) : clear_away(move);
  if (done) return;
  not_before_[move.id] = Clock::now() + parts_.limits.rest;
  const bool usual = done.error() == Errc::kBusy || done.error() == Errc::kNotFound;
  spdlog::log(usual ? spdlog::level::debug : spdlog::level::warn,
              "event=move_put_off file={:x} from={} to={} error=\"{}\"", move.id, move.from,
              move.to, done.error().describe());
}

Result<> Mover::fill_or_finish(const Move& move, const Round& round) {
  auto map = parts_.names.layout(move.id);
  if (!map) return pass(map);
  if (!*map) return {};  // removed meanwhile
  const Server* const to = round.find(move.to);
  const bool lost = to == nullptr || to->reach == Reach::kGone;
  const bool current = is_current(**map, move.to);
  if (lost || (!current && (to->duty != Duty::kServing || round.given_up.contains(move.from)))) {
    return cancel(move, to);
  }
  if (!current) return {};  // it is being filled
  if (auto out = parts_.exclude(move.id, move.from); !out) return out;
  if (auto finished = parts_.finish(move.id); !finished) return finished;
  count(move);
  return {};
}

// It may have been current, and be named by layouts: so it is excluded as any copy is.
Result<> Mover::cancel(const Move& move, const Server* to) {
  if (to != nullptr && to->reach == Reach::kGone && !parts_.lapse(move.to)) {
    return fail(Errc::kBusy, "the successor is lost, and its lease has not ended");
  }
  if (auto out = parts_.exclude(move.id, move.to); !out) return out;
  auto cancelled = parts_.names.cancel_move(move.id);
  if (!cancelled) return pass(cancelled);
  spdlog::info("event=move_given_up file={:x} from={} to={}", move.id, move.from, move.to);
  return {};
}

void Mover::count(const Move& move) {
  auto attributes = parts_.names.getattr(move.id);
  spdlog::info("event=moved file={:x} from={} to={}", move.id, move.from, move.to);
  const MutexLock lock(mutex_);
  ++moved_;
  const auto source = sources_.find(move.from);
  if (source == sources_.end()) return;
  ++source->second.moved;
  if (attributes) source->second.moved_bytes += attributes->size;
}

// Of what left: whoever still has a handle of before is refused there, and then it goes.
Result<> Mover::clear_away(const Move& move) {
  auto left = left_.find(move.id);
  if (left == left_.end()) {
    auto map = parts_.names.layout(move.id);
    if (!map) return pass(map);
    if (!*map) return {};  // removed meanwhile, and this object with it
    const control::Fence fence{.object = parts_.names.object_of(move.id, **map),
                               .epoch = (*map)->object_epoch};
    if (auto fenced = parts_.fence(move.from, fence); !fenced) return fenced;
    left = left_.emplace(move.id, Clock::now()).first;
  }
  if (Clock::now() < left->second + parts_.limits.linger) return {};
  auto ended = parts_.names.end_move(move.id);
  if (!ended) return ended;
  left_.erase(left);
  parts_.removals();
  return {};
}

Mover::Begun Mover::begin(FileId file, std::uint32_t from, Round& round) {
  if (not_before_.contains(file)) return Begun::kNothing;
  auto map = parts_.names.layout(file);
  if (!map || !*map || !layout::seat_of(**map, from)) return Begun::kNothing;
  const auto move = parts_.names.move_of(file);
  if (!move || *move) return Begun::kNothing;
  if (round.under_way >= parts_.limits.at_once) return Begun::kFull;
  const auto to = successor(**map, file, from, round);
  if (!to && to.error() == Errc::kBusy) return Begun::kFull;
  if (!to) {
    note_stuck(from, to.error().text);
    return Begun::kNothing;
  }
  if (auto added = add(file, **map, from, *to, round); !added) {
    if (added.error() == Errc::kStale || added.error() == Errc::kNotFound) return Begun::kNothing;
    not_before_[file] = Clock::now() + parts_.limits.rest;
    note_stuck(from, added.error().describe());
    return Begun::kNothing;
  }
  ++round.under_way;
  ++round.filling[*to];
  parts_.fill(*to);
  return Begun::kYes;
}

// kBusy: the one that would be chosen has enough to do.
Result<std::uint32_t> Mover::successor(const layout::LayoutMap& map, FileId file,
                                       std::uint32_t from, const Round& round) const {
  const auto seat = *layout::seat_of(map, from);
  const bool there = std::ranges::any_of(map.copies, [&](const layout::Copy& copy) {
    if (copy.state_of(seat.stripe) != CopyState::kCurrent) return false;
    const Server* const server = round.find(copy.ds_ids[seat.stripe]);
    return server != nullptr && server->reach == Reach::kHere;
  });
  if (!there) {
    return fail(Errc::kUnreachable, "no data server that is here has a current copy of them");
  }
  auto attributes = parts_.names.getattr(file);
  if (!attributes) return pass(attributes);
  const auto filling = [&](std::uint32_t ds_id) {
    const auto at = round.filling.find(ds_id);
    return at == round.filling.end() ? 0U : at->second;
  };
  auto to =
      layout::choose_successor(map, from, round.candidates(),
                               {.reserve_bytes = parts_.limits.reserve_bytes,
                                .wanted_bytes = attributes->size / map.copies.front().ds_ids.size(),
                                .under_way = filling});
  if (to && filling(*to) >= parts_.limits.per_server) return fail(Errc::kBusy, "enough to do");
  return to;
}

// Of the stripe's current copies those that are gone are excluded first: filling asks all of them.
Result<> Mover::add(FileId file, const layout::LayoutMap& map, std::uint32_t from, std::uint32_t to,
                    const Round& round) {
  const auto seat = *layout::seat_of(map, from);
  for (const layout::Copy& copy : map.copies) {
    const std::uint32_t ds_id = copy.ds_ids[seat.stripe];
    if (copy.state_of(seat.stripe) != CopyState::kCurrent) continue;
    const Server* const server = round.find(ds_id);
    const bool gone = server == nullptr || server->reach == Reach::kGone;
    const bool full = ds_id == from && !layout::has_room_at(map, seat.stripe);
    if (!gone && !full) continue;
    if (auto out = parts_.exclude(file, ds_id); !out) return out;
  }
  auto begun = parts_.begin(file, from, to);
  if (!begun) return pass(begun);
  spdlog::info("event=move_begun file={:x} from={} to={}", file, from, to);
  const auto move = parts_.names.move_of(file);
  if (move && *move && (*move)->stage == MoveStage::kLeft) count(**move);
  return {};
}

// One that never comes back removes nothing.
bool Mover::strip_removal(const layout::ObjectId& object, std::uint32_t ds_id) {
  auto map = parts_.names.layout(object.fileid);
  const bool used = map && *map && (*map)->object_generation == object.generation &&
                    layout::seat_of(**map, ds_id).has_value();
  if (used) return false;
  const auto move = parts_.names.move_of(object.fileid);
  if (!move || *move) return false;  // it is going to be queued
  return parts_.names.finish_removals({&object, 1}, {&ds_id, 1}).has_value();
}

}  // namespace weft::mds
