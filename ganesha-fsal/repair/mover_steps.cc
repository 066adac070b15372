// Mover: the steps of moves, from choosing a successor to the removal of what nobody needs.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "ganesha-fsal/cluster/in_parallel.h"
#include "ganesha-fsal/repair/mend_parts.h"
#include "ganesha-fsal/repair/mover.h"
#include "layout/relocation.h"

namespace weft::mds {

using layout::CopyState;

// The file is gone, or is not what it was when it was chosen.
bool Mover::is_overtaken(const Error& error) {
  return error == Errc::kStale || error == Errc::kNotFound;
}

Mover::Steps Mover::due() const {
  const auto now = parts_.clock.now();
  Steps steps;
  for (const auto& [file, known] : moves_) {
    if (known.fenced && now < *known.fenced + parts_.limits.linger) continue;
    const auto put_off = not_before_.find(file);
    if (put_off != not_before_.end() && put_off->second > now) continue;
    const bool filling = known.move.stage == MoveStage::kFilling;
    (filling ? steps.filling : known.fenced ? steps.lingered : steps.fences).push_back({known});
  }
  return steps;
}

void Mover::take(Steps& steps, const Round& round) {
  fence_those_that_left(steps.fences);
  in_parallel(steps.filling.size(), parts_.limits.threads, [&](std::size_t i) {
    auto& [known, outcome] = steps.filling[i];
    if (!is_stopping()) outcome = fill_or_finish(known, round);
  });
  end_those_that_lingered(steps.lingered);
}

void Mover::put_down(const Steps& steps) {
  for (const auto* const all : {&steps.fences, &steps.filling, &steps.lingered}) {
    for (const auto& [known, outcome] : *all) {
      if (!outcome) put_off(known.move.id, outcome.error());
    }
  }
  for (const auto& [known, outcome] : steps.fences) {
    if (outcome && *outcome) moves_[known.move.id].fenced = parts_.clock.now();
    if (outcome && !*outcome) look_at(known.move.id);
  }
  for (const auto& [known, outcome] : steps.filling) {
    if (outcome && *outcome) look_at(known.move.id);
  }
  for (const auto& [known, outcome] : steps.lingered) {
    if (outcome && *outcome) moves_.erase(known.move.id);
  }
}

void Mover::end_those_that_lingered(std::vector<Steps::Step>& steps) const {
  if (steps.empty()) return;
  const std::size_t most = parts_.limits.ended;
  for (std::size_t at = 0; at < steps.size() && !is_stopping(); at += most) {
    const auto some = std::span(steps).subspan(at, std::min(most, steps.size() - at));
    std::vector<FileId> files;
    for (const Steps::Step& step : some) files.push_back(step.known.move.id);
    const auto ended = parts_.names.end_moves(files);
    for (Steps::Step& step : some) {
      step.outcome = ended ? Result<bool>(true) : std::unexpected(ended.error());
    }
  }
  parts_.removals();
}

void Mover::look_at(FileId file) {
  const auto now = parts_.names.move_of(file);
  if (!now) return;  // once more, by and by
  if (*now) {
    moves_[file].move = **now;
  } else {
    moves_.erase(file);
  }
}

void Mover::rest(FileId file) { not_before_[file] = parts_.clock.now() + parts_.limits.rest; }

void Mover::put_off(FileId file, const Error& error) {
  rest(file);
  const Move& move = moves_[file].move;
  const bool usual = error == Errc::kBusy || error == Errc::kNotFound;
  spdlog::log(usual ? spdlog::level::debug : spdlog::level::warn,
              "event=move_put_off file={:x} from={} to={} error=\"{}\"", file, move.from, move.to,
              error.describe());
}

Result<bool> Mover::fill_or_finish(const Known& known, const Round& round) {
  const Move& move = known.move;
  auto map = parts_.names.layout(move.id);
  if (!map) return pass(map);
  if (!*map) return true;  // removed meanwhile
  const Server* const to = round.find(move.to);
  const bool lost = to == nullptr || to->reach == Reach::kGone;
  const bool current = is_current(**map, move.to);
  const bool given_up = lost || to->duty != Duty::kServing || known.given_up;
  // The server that is to keep the object has its copy, whatever the successor got meanwhile.
  const bool stays = known.given_up && is_current(**map, move.from);
  if (lost || stays || (!current && (given_up || !has_source(**map, move.to, round)))) {
    auto cancelled = cancel(move, to);
    if (!cancelled) return pass(cancelled);
    return true;
  }
  if (!current) return false;  // it is being filled
  if (auto out = parts_.exclude(move.id, move.from); !out) return pass(out);
  if (auto finished = parts_.finish(move.id); !finished) return pass(finished);
  spdlog::debug("event=moved file={:x} from={} to={}", move.id, move.from, move.to);
  count(move.from, known.size.file);
  return true;
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

void Mover::count(std::uint32_t from, std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  ++moved_;
  const auto source = sources_.find(from);
  if (source == sources_.end()) return;
  ++source->second.moved;
  source->second.moved_bytes += bytes;
}

Result<std::optional<control::Fence>> Mover::fence_of(FileId file) const {
  auto map = parts_.names.layout(file);
  if (!map) return pass(map);
  if (!*map) return std::nullopt;  // removed meanwhile, and this object with it
  return control::Fence{.object = parts_.names.object_of(file, **map),
                        .epoch = (*map)->object_epoch};
}

// Of what left: whoever still has a handle of before is refused there, and by and by it goes.
void Mover::fence_those_that_left(std::vector<Steps::Step>& steps) const {
  std::map<std::uint32_t, std::vector<Steps::Step*>> by_server;
  for (Steps::Step& step : steps) {
    const std::uint32_t ds_id = step.known.move.from;
    std::vector<Steps::Step*>& there = by_server[ds_id];
    there.push_back(&step);
    if (there.size() == control::kMaxFences) fence_at(ds_id, std::exchange(there, {}));
  }
  for (auto& [ds_id, there] : by_server) {
    if (!there.empty()) fence_at(ds_id, there);
  }
}

void Mover::fence_at(std::uint32_t ds_id, std::span<Steps::Step* const> steps) const {
  if (is_stopping()) return;
  std::vector<control::Fence> fences;
  std::vector<Steps::Step*> fenced;
  for (Steps::Step* const step : steps) {
    auto fence = fence_of(step->known.move.id);
    if (!fence) {
      step->outcome = std::unexpected(fence.error());
    } else if (*fence) {
      fences.push_back(**fence);
      fenced.push_back(step);
    }
  }
  if (fences.empty()) return;
  const auto done = parts_.fence(ds_id, std::move(fences));
  for (Steps::Step* const step : fenced) {
    step->outcome = done ? Result<bool>(true) : std::unexpected(done.error());
  }
}

Mover::Begun Mover::choose(FileId file, std::uint32_t from, Round& round,
                           std::vector<Chosen>& chosen) {
  if (not_before_.contains(file) || moves_.contains(file)) return Begun::kNothing;
  if (!chosen.empty() && chosen.back().file == file) return Begun::kNothing;
  auto map = parts_.names.layout(file);
  if (!map || !*map || !layout::seat_of(**map, from)) return Begun::kNothing;
  const auto move = parts_.names.move_of(file);
  if (!move || *move) return Begun::kNothing;
  if (full(round) || moves_.size() + chosen.size() >= parts_.limits.known) return Begun::kFull;
  const auto attributes = parts_.names.getattr(file);
  if (!attributes) return Begun::kNothing;
  if (parts_.differs(file) && !is_lost(round.find(from))) {
    note_stuck(from, file, "their copies differ, and nobody has said yet which is right");
    return Begun::kNothing;
  }
  if (!may_be_left(**map, from, round)) {
    note_stuck(from, file, "other copies of them are still to be repaired");
    return Begun::kNothing;
  }
  const auto to = successor(*attributes, **map, from, round);
  if (!to && to.error() == Errc::kBusy) return Begun::kFull;
  if (!to && to.error() == Errc::kLayoutTryLater) return Begun::kNothing;
  if (!to) {
    note_stuck(from, file, to.error().text);
    return Begun::kNothing;
  }
  const Size size{.file = attributes->size, .stripe = to->bytes};
  round.add(to->ds_id, size);
  chosen.push_back({file, std::move(**map), to->ds_id, size});
  return Begun::kYes;
}

std::vector<Mover::Chosen> Mover::begin_all(std::vector<Chosen> chosen, std::uint32_t from,
                                            Round& round) {
  std::vector<Chosen> failed = move_directly(chosen, from, round);
  in_parallel(chosen.size(), parts_.limits.threads, [&](std::size_t i) {
    if (!is_stopping()) chosen[i].begun = add(chosen[i], from, round);
  });
  std::set<std::uint32_t> fill;
  for (Chosen& one : chosen) {
    if (one.begun && *one.begun) {
      const Move& move = **one.begun;
      moves_[one.file] = {.move = move, .size = one.size, .fenced = {}};
      if (move.stage == MoveStage::kLeft) unfilled_[{one.file, one.to}] = one.size;
      fill.insert(one.to);
      continue;
    }
    round.take_off(one.to, one.size);
    if (one.begun) continue;
    if (!is_overtaken(one.begun.error())) rest(one.file);
    failed.push_back(std::move(one));
  }
  for (const std::uint32_t to : fill) parts_.fill(to);
  return failed;
}

Mover::Size Mover::size_of(std::uint64_t file, const layout::LayoutMap& map) {
  const std::uint64_t unit = map.stripe_unit;
  const std::uint64_t row = unit * map.copies.front().ds_ids.size();
  const std::uint64_t rows = file / row + (file % row > 0 ? 1 : 0);
  return {.file = file, .stripe = std::min(file, rows * unit)};
}

Result<Mover::Successor> Mover::successor(const InodeAttributes& file, const layout::LayoutMap& map,
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
  const auto passes = [](const Error& error) {
    return error == Errc::kBusy || error == Errc::kLayoutTryLater;
  };
  const std::uint64_t whole = size_of(file.size, map).stripe;
  auto to = with_room(map, whole, from, round);
  if (to || passes(to.error())) return to;
  if (const auto any = with_room(map, 0, from, round); !any) {
    return passes(any.error()) ? any : to;
  }
  // Its holes are not copied. Where its bytes are in it is not asked: all may be here.
  const auto allocated = parts_.allocated(file.id, map);
  if (!allocated || *allocated >= whole) return to;
  return with_room(map, *allocated, from, round);
}

bool Mover::may_be_left(const layout::LayoutMap& map, std::uint32_t from, const Round& round) {
  const auto seat = *layout::seat_of(map, from);
  const Server* const left = round.find(from);
  if (layout::has_room_at(map, seat.stripe) || left == nullptr || left->reach == Reach::kGone ||
      !is_current(map, from)) {
    return true;
  }
  const auto good = std::ranges::count_if(map.copies, [&](const layout::Copy& copy) {
    const std::uint32_t ds_id = copy.ds_ids[seat.stripe];
    const Server* const server = round.find(ds_id);
    return ds_id != from && copy.state_of(seat.stripe) == CopyState::kCurrent &&
           server != nullptr && server->reach == Reach::kHere;
  });
  return good >= 2;
}

// It is not here, and is not to come back.
bool Mover::is_lost(const Server* server) {
  return server == nullptr || mds::is_lost(server->reach, server->duty);
}

bool Mover::has_source(const layout::LayoutMap& map, std::uint32_t to, const Round& round) {
  const auto seat = layout::seat_of(map, to);
  if (!seat) return false;
  return std::ranges::any_of(map.copies, [&](const layout::Copy& copy) {
    return copy.state_of(seat->stripe) == CopyState::kCurrent &&
           !is_lost(round.find(copy.ds_ids[seat->stripe]));
  });
}

Result<Mover::Successor> Mover::with_room(const layout::LayoutMap& map, std::uint64_t bytes,
                                          std::uint32_t from, const Round& round) const {
  layout::SuccessorRules rules{.reserve_bytes = parts_.limits.reserve_bytes, .wanted_bytes = bytes};
  if (auto any = layout::choose_successor(map, from, round.candidates, rules); !any) {
    return pass(any);
  }
  rules.under_way = [&](std::uint32_t id) { return static_cast<unsigned>(round.moves_to(id)); };
  rules.coming = [&](std::uint32_t id) { return round.coming_to(id); };
  const auto to = layout::choose_successor(map, from, round.candidates, rules);
  if (!to) return fail(Errc::kLayoutTryLater, "others are to take the room that there is");
  if (full(round, *to)) return fail(Errc::kBusy, "enough to do");
  return Successor{*to, bytes};
}

// Of the stripe's current copies those that are gone are excluded first: filling asks all of them.
Result<std::optional<Move>> Mover::add(const Chosen& chosen, std::uint32_t from,
                                       const Round& round) {
  const FileId file = chosen.file;
  const layout::LayoutMap& map = chosen.map;
  const std::uint32_t to = chosen.to;
  const auto seat = *layout::seat_of(map, from);
  for (const layout::Copy& copy : map.copies) {
    const std::uint32_t ds_id = copy.ds_ids[seat.stripe];
    if (copy.state_of(seat.stripe) != CopyState::kCurrent) continue;
    const Server* const server = round.find(ds_id);
    const bool gone = server == nullptr || server->reach == Reach::kGone;
    const bool full = ds_id == from && !layout::has_room_at(map, seat.stripe);
    if (!gone && !full) continue;
    if (auto out = parts_.exclude(file, ds_id); !out) return pass(out);
  }
  auto begun = parts_.begin(file, from, to);
  if (!begun) return pass(begun);
  spdlog::debug("event=move_begun file={:x} from={} to={}", file, from, to);
  auto move = parts_.names.move_of(file);
  if (move && *move && (*move)->stage == MoveStage::kLeft) count(from, chosen.size.file);
  return move;
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
