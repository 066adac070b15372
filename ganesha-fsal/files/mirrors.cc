// Mirrors: who leads, and what layouts name. Losing copies is in exclusion.cc.
#include "ganesha-fsal/files/mirrors.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "ganesha-fsal/cluster/wait_limit.h"
#include "layout/layout_servers.h"
#include "layout/relocation.h"

namespace weft::mds {
namespace {

constexpr std::uint64_t kNoDoubt = UINT64_MAX;  // ObjectsLook::doubt of a file that is in none

bool has_copies(const layout::LayoutMap& map) { return map.copies.size() > 1; }

bool has_no_bytes(const Namespace& names, FileId file) {
  const auto attributes = names.getattr(file);
  return attributes && attributes->size == 0;
}

bool current(const layout::LayoutMap& map, std::size_t copy, std::size_t stripe) {
  return map.copies[copy].state_of(stripe) == layout::CopyState::kCurrent;
}

// False too when the leaders are of a map that is not the one any more.
bool all_current(const layout::LayoutMap& map, std::span<const std::uint8_t> leads) {
  for (std::size_t stripe = 0; stripe < leads.size(); ++stripe) {
    if (leads[stripe] >= map.copies.size() || !current(map, leads[stripe], stripe)) return false;
  }
  return true;
}

// What is known of a file's servers' loads and room, at one moment; of those that are here only.
class Loads {
 public:
  Loads(const layout::LayoutMap& map, const Mirrors::Parts& parts) {
    for (layout::Candidate& server : parts.candidates(servers_of(map))) {
      if (parts.reach(server.ds_id) != Reach::kHere) continue;
      if (server.capacity_bytes > 0) free_[server.ds_id] = server.free_bytes;
      loads_[server.ds_id] = std::move(server.load);
    }
  }
  [[nodiscard]] layout::LoadOf of() const {
    return [this](std::uint32_t ds_id) -> const layout::ServerLoad* {
      const auto it = loads_.find(ds_id);
      return it == loads_.end() ? nullptr : &it->second;
    };
  }

  [[nodiscard]] layout::HasRoom has_room(const layout::ChoiceRules& rules) const {
    return [this, &rules](std::uint32_t ds_id) {
      const auto it = free_.find(ds_id);
      return it == free_.end() || it->second >= rules.room_floor;
    };
  }

 private:
  std::map<std::uint32_t, layout::ServerLoad> loads_;
  std::map<std::uint32_t, std::uint64_t> free_;  // bytes, where that is known
};

}  // namespace

Mirrors::Mirrors(Parts parts)
    : parts_(std::move(parts)),
      reads_({.files = parts_.files,
              .names = parts_.names,
              .layouts = parts_.layouts,
              .reach = parts_.reach,
              .candidates = parts_.candidates,
              .now = [this] { return parts_.files.now(); },
              .look_every = parts_.look_at_reads,
              .wrong_for = parts_.wrong_for}) {}

void Mirrors::unpin(FileId file, Use use) {
  const FileTable::Changing record(parts_.files, file);
  --record->mirrors.pins;
  if (use == Use::kRepair) --record->mirrors.repairs;
}

std::optional<Mirrors::Place> Mirrors::place_of(const layout::LayoutMap& map, std::uint32_t ds_id) {
  for (std::size_t copy = 0; copy < map.copies.size(); ++copy) {
    const auto& ids = map.copies[copy].ds_ids;
    const auto at = std::ranges::find(ids, ds_id);
    if (at != ids.end()) return Place{copy, static_cast<std::size_t>(at - ids.begin())};
  }
  return std::nullopt;
}

Result<layout::LayoutMap> Mirrors::map_of(FileId file) const {
  auto map = layout_map(parts_.files, parts_.names, file);
  if (!map) return pass(map);
  if (!*map) return fail(Errc::kStale, "no layout");
  return std::move(**map);
}

Result<> Mirrors::answer(Result<Step> step) {
  if (!step) return pass(step);
  return step->awaited == nullptr ? Result<>() : fail(Errc::kBusy, step->awaited);
}

Result<> Mirrors::await_done(FileId file, Until until,
                             const std::function<Result<Step>()>& step) const {
  const auto deadline = until.value_or(parts_.files.now() + parts_.patience);
  while (true) {
    const std::uint64_t seen = parts_.files.progress(file);
    auto made = step();
    const auto now = parts_.files.now();
    if (!made || is_done(made) || now >= deadline || stopping_ || !WaitLimit::may_wait()) {
      return answer(std::move(made));
    }
    parts_.files.await_progress(file, seen, std::min(deadline, now + parts_.look_again));
  }
}

// The memory that writing needs is for the part of the file that a server has; of a file without
// bytes nobody knows how long it will be.
layout::ChoiceRules Mirrors::rules_for(FileId file, const layout::LayoutMap& map) const {
  layout::ChoiceRules rules = parts_.rules;
  const auto attributes = parts_.names.getattr(file);
  if (!attributes || attributes->size == 0) return rules;
  const std::uint64_t stripes = map.copies.front().ds_ids.size();
  rules.memory_floor = (attributes->size + stripes - 1) / stripes;
  return rules;
}

Result<layout::Leads> Mirrors::choose(FileId file, const layout::LayoutMap& map,
                                      std::span<const std::uint8_t> before) const {
  const Loads loads(map, parts_);
  const layout::ChoiceRules rules = rules_for(file, map);
  auto chosen = layout::choose_leads(map, loads.of(), rules, before, loads.has_room(rules));
  if (chosen) return chosen;
  return fail(Errc::kLayoutTryLater, chosen.error().text);
}

bool Mirrors::one_was_lost(const layout::LayoutMap& map) const {
  for (const layout::Copy& copy : map.copies) {
    for (std::size_t stripe = 0; stripe < copy.ds_ids.size(); ++stripe) {
      if (copy.state_of(stripe) == layout::CopyState::kCurrent &&
          parts_.reach(copy.ds_ids[stripe]) == Reach::kWait) {
        return true;
      }
    }
  }
  return false;
}

Result<Mirrors::Target> Mirrors::begin_write(FileId file, const Namespace::MakeLayout& make,
                                             Use use, Until until) {
  auto begun = parts_.journal.begin(file, make);
  if (!begun) return pass(begun);
  if (!has_copies(begun->map)) {
    std::vector<std::uint8_t> leads(begun->map.copies.front().ds_ids.size(), 0);
    return Target{{std::move(begun->map), std::move(leads)},
                  Pin(nullptr, file, use, std::move(begun->pin))};
  }
  {
    const FileTable::Changing record(parts_.files, file);
    ++record->mirrors.pins;
    ++record->mirrors.begun;
    if (use == Use::kRepair) ++record->mirrors.repairs;
  }
  Pin pin(this, file, use, std::move(begun->pin));
  View view;
  auto ready = await_done(file, until, [&] { return try_begin(file, use, view); });
  if (!ready) return pass(ready);
  if (use == Use::kWrite && view.map.duplication == layout::Duplication::kServerAsync) {
    const FileTable::Changing record(parts_.files, file);
    const auto now = parts_.files.now();
    if (record->mirrors.owing == 0) record->mirrors.owing_since = now;
    record->mirrors.owing = parts_.files.number();
    record->mirrors.owing_due = now + parts_.owing_for;
  }
  return Target{std::move(view), std::move(pin)};
}

std::vector<Mirrors::Owing> Mirrors::take_owing(std::size_t limit) {
  const auto now = parts_.files.now();
  std::vector<Owing> due;
  for (const FileId file : parts_.files.due(Due::kOwing, now, limit)) {
    const FileTable::Changing record(parts_.files, file);
    if (record->due(Due::kOwing) > now) continue;
    record->mirrors.owing_due = now + parts_.owing_retry;
    due.push_back({file, record->mirrors.owing, record->mirrors.owing_since});
  }
  return due;
}

void Mirrors::duplicated(const Owing& what) {
  const FileTable::Changing record(parts_.files, what.file);
  if (record->mirrors.owing == what.until) record->mirrors.owing = 0;
}

bool Mirrors::owes(FileId file) const { return FileTable::Looking(parts_.files, file)->owes(); }

bool Mirrors::may_name_all(FileId file) {
  const FileTable::Changing record(parts_.files, file);
  if (record->mirrors.repairs > 0 || !record->journal.settled()) return false;
  record->mirrors.all_named = MirrorState::AllNamed::kYes;
  return true;
}

Result<Mirrors::Step> Mirrors::try_begin(FileId file, Use use, View& view) {
  const bool inherited = parts_.journal.inherited(file);
  auto map = map_of(file);
  if (!map) return pass(map);
  if (inherited) {
    if (auto fenced = fence_inherited(file, *map); !is_done(fenced)) return fenced;
  }
  if (use == Use::kWrite) {
    if (auto lost = leave_out_lost(file, *map); !is_done(lost)) return lost;
  }
  if (auto out = advance_all(file, *map); !is_done(out)) return out;
  if (auto led = lead(file, *map); !is_done(led)) return led;
  if (auto looked = try_look(file, view); !is_done(looked)) return looked;
  if (auto here = check_here(file, view); !is_done(here)) return here;
  if (use == Use::kPin) return Step{};  // readers miss nothing
  if (auto back = call_reads_back(file, view.map); !is_done(back)) return back;
  return use == Use::kRepair ? call_writers_back(file, view.map) : Step{};
}

// Whoever is to be written is here, or left out.
Result<Mirrors::Step> Mirrors::check_here(FileId file, const View& view) {
  const bool all = layout::written_by_clients(view.map);
  for (std::size_t stripe = 0; stripe < view.leads.size(); ++stripe) {
    for (std::size_t copy = 0; copy < view.map.copies.size(); ++copy) {
      if (!all && copy != view.leads[stripe]) continue;
      const Reach reach = parts_.reach(view.map.copies[copy].ds_ids[stripe]);
      if (reach == Reach::kHere) continue;
      if (reach == Reach::kWait) return Step{"a copy was lost a moment ago"};
      auto left = leave_out(file, view.map, {copy, stripe}, Cause::kGone);
      return is_done(left) ? Step{"a copy is being left out"} : std::move(left);
    }
  }
  return Step{};
}

// Sees to it that there are leaders: those that others write with, or wrote with and that owe, or
// new ones.
Result<Mirrors::Step> Mirrors::lead(FileId file, const layout::LayoutMap& map) {
  std::uint64_t begun = 0;
  std::uint64_t choice = 0;
  std::vector<std::uint8_t> before;
  {
    const FileTable::Looking record(parts_.files, file);
    const MirrorState& state = record->mirrors;
    begun = state.begun;
    choice = state.chosen;
    before = state.leads;
    const bool stay = state.pins > 1 || record->owes() || record->layouts.written();
    if (!before.empty() && stay) return Step{};
  }
  auto chosen =
      choose(file, map, all_current(map, before) ? before : std::span<const std::uint8_t>{});
  if (!chosen && one_was_lost(map)) return Step{"a data server was lost a moment ago"};
  if (!chosen) return pass(chosen);
  if (auto late = lead_late(file, map, chosen->copies); !is_done(late)) return late;
  const FileTable::Changing record(parts_.files, file);
  MirrorState& state = record->mirrors;
  // Whoever came meanwhile may have taken, and handed out, the leaders there are.
  if (state.begun != begun || state.chosen != choice) {
    return state.leads.empty() ? Step{"others begin to write"} : Step{};
  }
  ++state.chosen;
  if (state.renumbered && map.object_epoch < state.renumbered->epoch) {
    state.renumbered->apply(chosen->copies);
  }
  state.reads_back = false;  // while nobody wrote, all copies were read
  // Else who waits for layouts for reading, and chooses again each time that he looks, would wake
  // himself.
  if (state.leads != chosen->copies) ++record->progress;
  state.leads = std::move(chosen->copies);
  return Step{};
}

Result<Mirrors::Step> Mirrors::lead_late(FileId file, const layout::LayoutMap& map,
                                         std::vector<std::uint8_t>& leads) {
  const layout::ObjectId object = parts_.names.object_of(file, map);
  for (std::size_t stripe = 0; stripe < leads.size(); ++stripe) {
    std::optional<std::uint8_t> at;
    for (std::size_t copy = 0; copy < map.copies.size(); ++copy) {
      const std::uint32_t ds_id = map.copies[copy].ds_ids[stripe];
      if (!current(map, copy, stripe) || !parts_.late(object, ds_id)) continue;
      const Reach reach = parts_.reach(ds_id);
      if (reach == Reach::kGone) {
        auto left = leave_out(file, map, {copy, stripe}, Cause::kGone);
        return is_done(left) ? Step{"a copy is being left out"} : std::move(left);
      }
      if (reach == Reach::kWait || at) return Step{"what was given up may be carried out yet"};
      at = static_cast<std::uint8_t>(copy);
    }
    if (at) leads[stripe] = *at;
  }
  return Step{};
}

// While the first data server may be ahead of the others, nobody reads at them.
Result<Mirrors::Step> Mirrors::call_reads_back(FileId file, const layout::LayoutMap& map) {
  if (map.duplication != layout::Duplication::kServerAsync) return Step{};
  if (FileTable::Looking(parts_.files, file)->mirrors.reads_back) return Step{};
  const RecallWhat reads{.only = layout::Access::kRead, .others_wait = false};
  parts_.layouts.recall(file, "writers come", reads);
  if (parts_.layouts.returning(file, reads.only)) {
    return Step{"layouts for reading are being recalled"};
  }
  FileTable::Changing(parts_.files, file)->mirrors.reads_back = true;
  return Step{};
}

// While the pin that this is for lives no further layout names all copies. When one of the copies
// is not current, fences end what those that are out are good for.
Result<Mirrors::Step> Mirrors::call_writers_back(FileId file, const layout::LayoutMap& map) {
  using Named = MirrorState::AllNamed;
  const Named named = FileTable::Looking(parts_.files, file)->mirrors.all_named;
  if (named == Named::kNo || !layout::written_by_clients(map)) return Step{};
  const RecallWhat writers{.only = layout::Access::kReadWrite, .others_wait = false};
  if (named == Named::kYes) {
    parts_.layouts.recall(file, "its copies are to be made equal", writers);
    FileTable::Changing(parts_.files, file)->mirrors.all_named = Named::kRecalled;
  }
  if (parts_.layouts.returning(file, writers.only)) {
    return Step{"layouts that name all copies are being recalled"};
  }
  FileTable::Changing(parts_.files, file)->mirrors.all_named = Named::kNo;
  return Step{};
}

// The leaders of an earlier run are not known. Current copies whose servers are gone may have been
// among them; all others refuse what is still brought there.
Result<Mirrors::Step> Mirrors::fence_inherited(FileId file, const layout::LayoutMap& map) {
  constexpr Step kFencing{"writers of before the restart are being fenced"};
  {
    const FileTable::Looking record(parts_.files, file);
    const FenceState& state = record->mirrors.inherited;
    if (state.is == FenceState::Is::kHolds) return Step{};
    if (state.is == FenceState::Is::kUnderWay || state.retry_at > parts_.files.now())
      return kFencing;
  }
  std::vector<std::uint32_t> ds_ids;
  for (std::size_t copy = 0; copy < map.copies.size(); ++copy) {
    for (std::size_t stripe = 0; stripe < map.copies[copy].ds_ids.size(); ++stripe) {
      if (!current(map, copy, stripe)) continue;
      const std::uint32_t ds_id = map.copies[copy].ds_ids[stripe];
      if (parts_.reach(ds_id) == Reach::kGone) {
        auto left = leave_out(file, map, {copy, stripe}, Cause::kGone);
        return is_done(left) ? Step{"a copy is being left out"} : std::move(left);
      }
      ds_ids.push_back(ds_id);
    }
  }
  if (!FileTable::Changing(parts_.files, file)->mirrors.inherited.take(parts_.files.now())) {
    return kFencing;
  }
  control::Fence fence;
  fence.object = parts_.names.object_of(file, map);
  fence.epoch = map.object_epoch;
  parts_.fence(ds_ids, fence, [this, file](const Result<>& outcome) {
    const FileTable::Changing record(parts_.files, file);
    record->mirrors.inherited.ended(outcome.has_value(), parts_.files.now() + parts_.retry);
    ++record->progress;
  });
  return kFencing;
}

Result<Mirrors::Step> Mirrors::leave_out_lost(FileId file, const layout::LayoutMap& map) {
  using Is = ObjectsLook::Is;
  constexpr Step kAsking{"it is being asked whether all copies have the object"};
  if (!parts_.without) return Step{};
  const auto unsettled = parts_.journal.unsettled(file);
  const std::uint64_t doubt = unsettled ? unsettled->doubted : kNoDoubt;
  std::vector<std::uint32_t> without;
  const auto knows = [&](const ObjectsLook& look) {
    return look.is == Is::kDone && (!unsettled || look.doubt == doubt);
  };
  // Whoever writes has been here before, and a look is kept as long as anybody may write: what some
  // have and others will have in a moment is never taken for lost.
  bool first = false;
  {
    const FileTable::Looking record(parts_.files, file);
    const ObjectsLook& look = record->mirrors.look;
    if (record->layouts.written() || (knows(look) && look.without.empty())) return Step{};
    first = look.is == Is::kNone && !unsettled && record->size.doubt == 0;
  }
  const bool none = first && has_no_bytes(parts_.names, file);
  {
    const FileTable::Changing record(parts_.files, file);
    if (record->layouts.written()) return Step{};
    ObjectsLook& look = record->mirrors.look;
    if (look.is == Is::kUnderWay || look.retry_at > parts_.files.now()) return kAsking;
    const bool known = knows(look);
    if (known) without = std::exchange(look.without, {});
    if (!known) look = {.is = none ? Is::kDone : Is::kUnderWay, .doubt = doubt};
    if ((known || none) && without.empty()) return Step{};
  }
  for (const std::uint32_t ds_id : without) {
    const auto out = no_object(file, ds_id);
    if (out || out.error() == Errc::kNotFound || out.error() == Errc::kStale) continue;
    spdlog::warn("event=lost_object_stays file={:x} ds={} error=\"{}\"", file, ds_id,
                 out.error().describe());
    FileTable::Changing(parts_.files, file)->mirrors.look = {};  // they are asked again
    break;
  }
  if (!without.empty()) return Step{"copies that have no object are being left out"};
  const auto answered = [this, file](std::vector<std::uint32_t> found,
                                     const std::vector<std::uint32_t>& unasked) {
    // Who restarts just now may have come back with less than he had.
    const bool again = std::ranges::any_of(
        unasked, [this](std::uint32_t id) { return parts_.reach(id) != Reach::kGone; });
    const FileTable::Changing record(parts_.files, file);
    ObjectsLook& look = record->mirrors.look;
    if (again && found.empty()) {
      look = {.retry_at = parts_.files.now() + parts_.retry};
    } else {
      look.is = Is::kDone;
      look.without = std::move(found);
    }
    ++record->progress;
  };
  parts_.without(map, parts_.names.object_of(file, map), answered);
  return kAsking;
}

std::vector<std::uint8_t> Mirrors::leads_of(FileId file) const {
  const FileTable::Looking record(parts_.files, file);
  if (!record->being_written() && !record->owes()) return {};  // those of writers that are gone
  return record->mirrors.leads;
}

Result<Mirrors::View> Mirrors::look(FileId file) const {
  View view;
  if (auto looked = answer(try_look(file, view)); !looked) return pass(looked);
  return view;
}

Result<Mirrors::Step> Mirrors::try_look(FileId file, View& view) const {
  std::vector<std::uint8_t> leads = leads_of(file);
  auto map = map_of(file);
  if (!map) return pass(map);
  if (!has_copies(*map)) leads.assign(map->copies.front().ds_ids.size(), 0);
  // An exclusion marks the map first, and then changes the leaders.
  if (!all_current(*map, leads)) return Step{"the leader is changing"};
  view = {std::move(*map), std::move(leads)};
  return Step{};
}

Result<layout::LayoutServers> Mirrors::servers_for(FileId file, const View& view,
                                                   layout::Access access, std::size_t most,
                                                   const Usable& usable) {
  const layout::LayoutMap& map = view.map;
  const bool ahead = map.duplication == layout::Duplication::kServerAsync && !view.leads.empty();
  if (access == layout::Access::kReadWrite && view.leads.empty()) {
    return fail(Errc::kBusy, "nobody leads: the file has just got another copy");
  }
  if (access == layout::Access::kReadWrite || ahead || !has_copies(map)) {
    auto leaders = layout::one_of_each(map, view.leads);
    // Others may be read as well once all is duplicated, by those who read for longer too.
    if (leaders && ahead && access == layout::Access::kRead && !usable) {
      layout::ReadTurns turns;
      for (const std::uint8_t lead : view.leads) turns.push_back({lead});
      reads_.handed_out(file, layout::parts_of(turns, map.copies.size()));
    }
    return leaders;
  }
  auto turns = reads_.turns(file, map, most, usable);
  if (!turns) return pass(turns);
  if (!usable) reads_.handed_out(file, layout::parts_of(*turns, map.copies.size()));
  return layout::servers_in_turn(map, *turns);
}

Result<layout::LayoutServers> Mirrors::readers(FileId file, const View& view) const {
  if (!has_copies(view.map)) return layout::one_of_each(view.map, view.leads);
  auto turns = reads_.turns(file, view.map, layout::kMaxLayoutServers);
  if (!turns) return pass(turns);
  return layout::servers_in_turn(view.map, *turns);
}

Result<> Mirrors::finish_move(FileId file) {
  auto before = map_of(file);
  if (!before) return pass(before);
  auto move = parts_.names.move_of(file);
  if (!move) return pass(move);
  if (!*move) return fail(Errc::kNotFound, "the file is not being moved");
  const auto seat = layout::seat_of(*before, (*move)->from);
  auto after = parts_.names.finish_move(file);
  if (!after) return pass(after);
  if (!seat) return fail(Errc::kCorrupt, "a move that does not fit the layout map");
  // Between the two, look() finds leaders that are not of the map, and says so.
  const FileTable::Changing record(parts_.files, file);
  MirrorState& state = record->mirrors;
  if (state.pins == 0 && state.leads.empty()) return {};
  const Renumbered renumbered{.epoch = after->object_epoch,
                              .stripe = seat->stripe,
                              .before = static_cast<std::uint8_t>(before->copies.size() - 1),
                              .after = static_cast<std::uint8_t>(seat->copy)};
  state.renumbered = renumbered;
  ++state.chosen;
  renumbered.apply(state.leads);
  return {};
}

}  // namespace weft::mds
