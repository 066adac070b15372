// Mirrors: copies that miss writes, and what has to be so before such a write is acknowledged.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "ganesha-fsal/files/mirrors.h"
#include "ganesha-fsal/meta/ops/owed.h"
#include "layout/layout_servers.h"
#include "rpc/base/log_limit.h"

namespace weft::mds {
namespace {

using layout::Access;
using layout::CopyState;

constexpr DirtyExtent kWhole{0, kMaxFileSize};
constexpr std::chrono::seconds kLookAgain{30};  // at copies of idle files
constexpr std::size_t kMarkedAtOnce = 256;      // files, when their leader is gone

std::string_view to_string(Mirrors::Cause cause) {
  switch (cause) {
    case Mirrors::Cause::kGone: return "gone";
    case Mirrors::Cause::kNoAnswer: return "no answer";
    case Mirrors::Cause::kMoved: return "moved";
    case Mirrors::Cause::kDisk: return "disk";
    case Mirrors::Cause::kStore: return "store";
    case Mirrors::Cause::kNoObject: return "no object";
  }
  return "unknown";
}

// There is a line for each file, when a data server goes. Never destroyed: threads may log while
// the process ends.
LogLimit& stale_log = *new LogLimit;
LogLimit& left_out_log = *new LogLimit;
LogLimit& leader_log = *new LogLimit;

// What is moved away loses nothing.
void tell(bool moved, LogLimit& log, const std::string& line) {
  if (moved) return spdlog::debug("{}", line);
  log.warn("{}", line);
}

}  // namespace

bool Mirrors::leads_there(FileId file, Place place) const {
  const auto leads = leads_of(file);
  if (!leads.empty()) return leads[place.stripe] == place.copy;
  return parts_.journal.inherited(file);  // by whom it was led nobody knows
}

bool Mirrors::brings_on(FileId file, const layout::LayoutMap& map, Place place) const {
  return leads_there(file, place) || layout::written_by_clients(map) ||
         parts_.late(parts_.names.object_of(file, map),
                     map.copies[place.copy].ds_ids[place.stripe]);
}

bool Mirrors::other_is_here(const layout::LayoutMap& map, Place place) const {
  for (std::size_t copy = 0; copy < map.copies.size(); ++copy) {
    const layout::Copy& other = map.copies[copy];
    if (copy != place.copy && other.state_of(place.stripe) == CopyState::kCurrent &&
        parts_.reach(other.ds_ids[place.stripe]) == Reach::kHere) {
      return true;
    }
  }
  return false;
}

Exclusion Mirrors::begun(const Loss& loss, std::size_t stripe) const {
  return {.number = parts_.files.number(),
          .stripe = stripe,
          .led = loss.led,
          .written = loss.written,
          .since = parts_.files.now()};
}

Mirrors::Expected Mirrors::expect_exclusion(FileId file, const Loss& loss) {
  const std::uint64_t known = parts_.files.number();
  const auto map = map_of(file);
  const auto place = map ? place_of(*map, loss.ds_id) : std::nullopt;
  if (!place || map->copies[place->copy].state_of(place->stripe) == CopyState::kStale) return {};
  const FileTable::Changing record(parts_.files, file);
  const auto [it, fresh] = record->mirrors.excluded.try_emplace(loss.ds_id);
  Exclusion& out = it->second;
  if (out.number > known) return {};  // marked since the map was read
  Expected expected;
  if (!fresh) expected.before = out;
  out = begun(loss, place->stripe);
  expected.number = out.number;
  return expected;
}

void Mirrors::expect_no_exclusion(FileId file, const Loss& loss, const Expected& expected) {
  if (expected.number == 0) return;
  const FileTable::Changing record(parts_.files, file);
  const auto out = record->mirrors.excluded.find(loss.ds_id);
  if (out == record->mirrors.excluded.end() || out->second.number != expected.number) return;
  if (!expected.before) {
    record->mirrors.excluded.erase(out);
    return;
  }
  out->second = *expected.before;
  // What was answered meanwhile was not noted: once more.
  for (FenceState* const fence : {&out->second.others, &out->second.own}) {
    if (fence->is == FenceState::Is::kUnderWay) *fence = {};
  }
}

Result<Mirrors::Step> Mirrors::mark(FileId file, const Loss& loss) {
  StaleObject missed;
  missed.id = file;
  missed.copy = static_cast<std::uint32_t>(loss.place.copy);
  missed.ds_id = loss.ds_id;
  missed.dirty = loss.dirty;
  // Whoever waits for the same sync finds the copy stale before this goes on.
  const Expected expected = expect_exclusion(file, loss);
  auto marked = parts_.names.mark_stale(missed, loss.reporter, loss.durable,
                                        loss.led ? Namespace::Led::kYes : Namespace::Led::kNo);
  if (!marked || !marked->fresh) expect_no_exclusion(file, loss, expected);
  if (!marked && marked.error() == Errc::kBusy) return Step{"the file's copies change"};
  if (!marked) return pass(marked);
  if (!marked->fresh) return Step{};
  // The map may be another than the one that the loss was found by; it names the server.
  const Place place = *place_of(*marked, loss.ds_id);
  tell(loss.moved, stale_log,
       fmt::format("event=copy_stale file={:x} ds={} copy={} stripe={} led={} epoch={}", file,
                   loss.ds_id, place.copy, place.stripe, loss.led, marked->object_epoch));
  begin_exclusion(file, *marked, loss, place);
  return Step{};
}

void Mirrors::begin_exclusion(FileId file, const layout::LayoutMap& marked, const Loss& loss,
                              Place place) {
  std::optional<std::uint8_t> next;
  if (loss.led) {
    if (const auto chosen = choose(file, marked, {})) next = chosen->copies[place.stripe];
    for (std::size_t copy = 0; copy < marked.copies.size() && !next; ++copy) {
      if (marked.copies[copy].state_of(place.stripe) == CopyState::kCurrent) {
        next = static_cast<std::uint8_t>(copy);
      }
    }
  }
  const FileTable::Changing record(parts_.files, file);
  MirrorState& state = record->mirrors;
  state.excluded[loss.ds_id] = begun(loss, place.stripe);
  ++record->progress;
  if (!state.leads.empty() && state.leads[place.stripe] == place.copy && next) {
    state.leads[place.stripe] = *next;
    if (state.renumbered && marked.object_epoch < state.renumbered->epoch) {
      state.renumbered->apply(state.leads);
    }
    state.reads_back = false;
  }
}

Result<Mirrors::Step> Mirrors::leave_out(FileId file, const layout::LayoutMap& map, Place place,
                                         Cause cause, Namespace::Durable durable) {
  if (!other_is_here(map, place)) {
    return fail(Errc::kLayoutTryLater,
                fmt::format("data server {} is away, and no other current copy of its stripe is "
                            "there",
                            map.copies[place.copy].ds_ids[place.stripe]));
  }
  for (std::size_t copy = 0; copy < map.copies.size(); ++copy) {
    const layout::Copy& of = map.copies[copy];
    const std::uint32_t ds_id = of.ds_ids[place.stripe];
    if (of.state_of(place.stripe) != CopyState::kCurrent) continue;
    // What a leader brings to one that is gone nobody sees.
    if (copy != place.copy && parts_.reach(ds_id) != Reach::kGone) continue;
    const Place there{copy, place.stripe};
    const Cause why = copy == place.copy ? cause : Cause::kGone;
    const bool moved = why == Cause::kMoved;
    tell(moved, left_out_log,
         fmt::format("event=copy_left_out file={:x} ds={} cause={}", file, ds_id, to_string(why)));
    const Loss loss{.place = there,
                    .ds_id = ds_id,
                    .moved = moved,
                    .led = brings_on(file, map, there),
                    .written = layout::written_by_clients(map),
                    .dirty = {kWhole},
                    .reporter = {},
                    .durable = durable};
    if (auto marked = mark(file, loss); !is_done(marked)) return marked;
  }
  return Step{};
}

Mirrors::Steps Mirrors::next_steps(FileId file, Place place, std::uint32_t ds_id) {
  // A crash is seen by clients before it is by us: it may still come out that it is dead.
  const bool dead = parts_.dead(ds_id);
  const auto doubt = parts_.reach(ds_id) == Reach::kHere ? parts_.doubt / 3 : parts_.doubt;
  const auto now = parts_.files.now();
  const FileTable::Changing record(parts_.files, file);
  const auto [it, fresh] = record->mirrors.excluded.try_emplace(ds_id);
  Exclusion& out = it->second;
  // One of an earlier run. Who wrote under it then is fenced, or has given his layout back.
  if (fresh) out = {.number = parts_.files.number(), .stripe = place.stripe, .since = now};
  Steps steps{.now = out};
  if (out.holds) return steps;
  steps.fence_others = out.led && out.others.take(now);
  if (!dead && now >= out.since + doubt) {
    steps.recall = !out.recalled;
  }
  steps.now.recalled = out.recalled;
  return steps;
}

// Only now: who sees that they are recalled finds them recalled. Whoever recalls them beside this
// asks nobody again.
bool Mirrors::recall_named(FileId file, std::uint32_t ds_id, std::uint64_t number,
                           std::optional<Access> only) {
  parts_.layouts.recall(file, "a data server of it is left out",
                        {.only = only, .others_wait = false});
  const FileTable::Changing record(parts_.files, file);
  const auto out = record->mirrors.excluded.find(ds_id);
  if (out == record->mirrors.excluded.end() || out->second.number != number) return false;
  out->second.recalled = true;
  return true;
}

bool Mirrors::take_own_fence(FileId file, std::uint32_t ds_id, std::uint64_t number) {
  const FileTable::Changing record(parts_.files, file);
  const auto out = record->mirrors.excluded.find(ds_id);
  return out != record->mirrors.excluded.end() && out->second.number == number &&
         out->second.own.take(parts_.files.now());
}

void Mirrors::settle_exclusion(FileId file, std::uint32_t ds_id, std::uint64_t number) {
  const FileTable::Changing record(parts_.files, file);
  const auto out = record->mirrors.excluded.find(ds_id);
  if (out != record->mirrors.excluded.end() && out->second.number == number) {
    out->second.holds = true;
  }
}

void Mirrors::start_fence(FileId file, const layout::LayoutMap& map,
                          std::vector<std::uint32_t> ds_ids, std::uint32_t excluded,
                          std::uint64_t number, FenceState Exclusion::* which) {
  control::Fence fence;
  fence.object = parts_.names.object_of(file, map);
  fence.epoch = map.object_epoch;
  parts_.fence(ds_ids, fence, [this, file, excluded, number, which](const Result<>& outcome) {
    const FileTable::Changing record(parts_.files, file);
    const auto out = record->mirrors.excluded.find(excluded);
    if (out == record->mirrors.excluded.end() || out->second.number != number) return;
    (out->second.*which).ended(outcome.has_value(), parts_.files.now() + parts_.retry);
    ++record->progress;
  });
}

// A Linux client whose connection to a data server was refused wants to return the layout; it first
// sends what it wrote through the metadata server, and a LAYOUTCOMMIT. A recall that comes
// meanwhile it answers with NFS4ERR_DELAY, and goes on to use the layout stateid from before the
// recall. Ours takes that one (patch 0034); an unpatched Ganesha refuses it, and the client repeats
// it thousands of times a second until the layout is revoked. So a writer is recalled only when
// there was time for its own return: one round less, and a server that is dead needs none at all.
Result<Mirrors::Step> Mirrors::advance(FileId file, const layout::LayoutMap& map, Place place) {
  if (auto durable = parts_.names.settle(file); !durable) return pass(durable);
  const std::uint32_t ds_id = map.copies[place.copy].ds_ids[place.stripe];
  auto [now, fence_others, recall] = next_steps(file, place, ds_id);
  if (now.holds) return Step{};
  const auto only = now.led || now.written ? std::nullopt : std::optional<Access>(Access::kRead);
  if (fence_others) {
    std::vector<std::uint32_t> others;
    for (const layout::Copy& copy : map.copies) {
      if (copy.state_of(place.stripe) == CopyState::kCurrent) {
        others.push_back(copy.ds_ids[place.stripe]);
      }
    }
    start_fence(file, map, std::move(others), ds_id, now.number, &Exclusion::others);
  }
  if (recall) now.recalled = recall_named(file, ds_id, now.number, only);
  const bool unnamed =
      now.recalled && parts_.grants_known() && !parts_.layouts.returning(file, only);
  const bool fenced = now.own.is == FenceState::Is::kHolds;
  if (!unnamed && !fenced && take_own_fence(file, ds_id, now.number)) {
    start_fence(file, map, {ds_id}, ds_id, now.number, &Exclusion::own);
  }
  const bool others_fenced = !now.led || now.others.is == FenceState::Is::kHolds;
  if (!others_fenced || (!unnamed && !fenced)) {
    return Step{"a data server is being left out"};
  }
  settle_exclusion(file, ds_id, now.number);
  return Step{};
}

// Where the data server stands now, whatever the caller has done, or others have.
Result<Mirrors::Step> Mirrors::advance_now(FileId file, std::uint32_t ds_id) {
  auto map = map_of(file);
  if (!map) return pass(map);
  const auto place = place_of(*map, ds_id);
  if (!place) return Step{};  // the file was moved away from it
  if (map->copies[place->copy].state_of(place->stripe) == CopyState::kCurrent) {
    return Step{"the file's copies change"};
  }
  return advance(file, *map, *place);
}

Result<Mirrors::Step> Mirrors::advance_all(FileId file, const layout::LayoutMap& map) {
  Result<Step> outcome;
  for (std::size_t copy = 0; copy < map.copies.size(); ++copy) {
    for (std::size_t stripe = 0; stripe < map.copies[copy].ds_ids.size(); ++stripe) {
      const CopyState state = map.copies[copy].state_of(stripe);
      if (state == CopyState::kCurrent || state == CopyState::kVacant) continue;
      if (auto out = advance(file, map, {copy, stripe}); !is_done(out)) outcome = std::move(out);
    }
  }
  return outcome;
}

Result<> Mirrors::exclude(FileId file, std::uint32_t ds_id, Cause cause, Until until) {
  return await_done(file, until, [&]() -> Result<Step> {
    auto map = map_of(file);
    if (!map) return pass(map);
    const auto place = place_of(*map, ds_id);
    if (!place) return Step{};  // the file was moved away from it
    if (map->copies.size() == 1) {
      return fail(Errc::kLayoutTryLater, fmt::format("data server {} has the only copy", ds_id));
    }
    if (map->copies[place->copy].state_of(place->stripe) == CopyState::kCurrent) {
      if (auto left = leave_out(file, *map, *place, cause); !is_done(left)) return left;
    }
    return advance_now(file, ds_id);
  });
}

Result<layout::LayoutMap> Mirrors::prepare_change(FileId file, DirtyExtent changed) {
  std::vector<std::uint32_t> marked;  // the change is in what they lack already
  Result<layout::LayoutMap> map;
  auto done = await_done(file, {}, [&]() -> Result<Step> {
    map = map_of(file);
    if (!map) return pass(map);
    if (map->copies.size() == 1) return Step{};
    if (auto made = try_change(file, changed, marked); !is_done(made)) return made;
    map = map_of(file);
    if (!map) return pass(map);
    return advance_all(file, *map);
  });
  if (!done) return pass(done);
  return map;
}

Result<Mirrors::Step> Mirrors::try_change(FileId file, DirtyExtent changed,
                                          std::vector<std::uint32_t>& marked) {
  auto map = map_of(file);
  if (!map) return pass(map);
  for (std::size_t copy = 0; copy < map->copies.size(); ++copy) {
    const layout::Copy& of = map->copies[copy];
    for (std::size_t stripe = 0; stripe < of.ds_ids.size(); ++stripe) {
      if (!of.holds(stripe)) continue;
      const Place place{copy, stripe};
      const std::uint32_t ds_id = of.ds_ids[stripe];
      const bool current = of.state_of(stripe) == CopyState::kCurrent;
      if (current) {
        const Reach reach = parts_.reach(ds_id);
        if (reach == Reach::kHere) continue;
        if (reach == Reach::kWait) return Step{"a data server was lost a moment ago"};
        if (brings_on(file, *map, place)) {
          auto left = leave_out(file, *map, place, Cause::kGone);
          if (!is_done(left)) return left;
          marked.push_back(ds_id);
          continue;
        }
        if (!other_is_here(*map, place)) {
          return fail(Errc::kLayoutTryLater,
                      fmt::format("data server {} is away, and no other current copy of its stripe "
                                  "is there",
                                  ds_id));
        }
      } else if (std::ranges::find(marked, ds_id) != marked.end()) {
        continue;
      }
      const Loss loss{
          .place = place, .ds_id = ds_id, .led = false, .dirty = {changed}, .reporter = {}};
      if (auto done = mark(file, loss); !is_done(done)) return done;
      marked.push_back(ds_id);
    }
  }
  return Step{};
}

bool Mirrors::recall_from(FileId file, std::uint32_t ds_id) {
  const auto map = map_of(file);
  if (!map || map->copies.size() == 1) return false;
  const auto place = place_of(*map, ds_id);
  if (!place) return false;
  if (map->copies[place->copy].state_of(place->stripe) != CopyState::kCurrent) return false;
  const auto leads = leads_of(file);
  const bool leading = !leads.empty() && leads[place->stripe] == place->copy;
  if (!leading && (leads.empty() || !layout::written_by_clients(*map))) {
    // As in advance(): the layout stateid of a client is the same for reading and writing.
    if (parts_.dead(ds_id) && parts_.layouts.held_for_write(file)) return false;
    parts_.layouts.recall(file, "a data server is gone",
                          {.only = Access::kRead, .others_wait = false});
    return false;
  }
  constexpr auto kLater = Namespace::Durable::kLater;
  Owed owed;  // advance() waits for it
  const Owed::Scope scope(owed);
  if (auto left = answer(leave_out(file, *map, *place, Cause::kGone, kLater)); !left) {
    leader_log.warn("event=leader_gone file={:x} ds={} error=\"{}\"", file, ds_id,
                    left.error().describe());
    return false;
  }
  return true;
}

void Mirrors::server_gone(std::uint32_t ds_id) {
  // Layouts that clients only keep are asked for otherwise (kept_layouts.h).
  std::vector<FileId> files = parts_.layouts.files(ds_id);
  std::erase_if(files, [this](FileId file) { return !parts_.layouts.used(file); });
  spdlog::warn("event=data_server_gone ds={} files_with_layouts={}", ds_id, files.size());
  std::vector<FileId> marked;
  const auto go_on = [&] {
    for (const FileId file : marked) static_cast<void>(advance_now(file, ds_id));
    marked.clear();
  };
  for (const FileId file : files) {
    if (parts_.reach(ds_id) != Reach::kGone) break;  // it is back
    if (recall_from(file, ds_id)) marked.push_back(file);
    if (marked.size() == kMarkedAtOnce) go_on();  // which waits for one sync
  }
  go_on();
}

void Mirrors::tick() {
  std::vector<std::uint32_t> lost;
  for (const std::uint32_t ds_id : parts_.servers()) {
    const bool gone = parts_.reach(ds_id) == Reach::kGone;
    const MutexLock lock(mutex_);
    if (!gone) {
      gone_.erase(ds_id);
    } else if (gone_.insert(ds_id).second) {
      lost.push_back(ds_id);
    }
  }
  for (const std::uint32_t ds_id : lost) server_gone(ds_id);
  sweep();
  reads_.renew(parts_.files.now());
}

void Mirrors::sweep() {
  const auto now = parts_.files.now();
  for (const FileId file : parts_.files.due(Due::kCopies, now, SIZE_MAX)) {
    {
      const FileTable::Changing record(parts_.files, file);
      const bool young = std::ranges::any_of(record->mirrors.excluded, [&](const auto& out) {
        return !out.second.holds && now < out.second.since + parts_.doubt;
      });
      record->mirrors.look_again = now + (young ? parts_.doubt : Clock::duration(kLookAgain));
    }
    look_after(file);
  }
  // Not at once, when the last writer goes: one who writes again a moment later has them again.
  for (const FileId file : parts_.files.due(Due::kUnused, now, SIZE_MAX)) {
    const FileTable::Changing record(parts_.files, file);
    if (record->unused()) record->mirrors = {};
  }
}

// Copies that are current again, or gone, need no record any more; others may need to get on.
void Mirrors::look_after(FileId file) {
  const std::uint64_t known = parts_.files.number();
  const auto map = map_of(file);
  if (!map && map.error().code != Errc::kStale) return;
  if (map) static_cast<void>(advance_all(file, *map));
  const FileTable::Changing record(parts_.files, file);
  std::erase_if(record->mirrors.excluded, [&](const auto& out) {
    if (out.second.number > known) return false;  // since the map was read
    const auto place = map ? place_of(*map, out.first) : std::nullopt;
    if (!place) return true;
    return map->copies[place->copy].state_of(place->stripe) == CopyState::kCurrent;
  });
}

}  // namespace weft::mds
