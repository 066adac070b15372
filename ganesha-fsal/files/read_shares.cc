#include "ganesha-fsal/files/read_shares.h"

#include <algorithm>
#include <map>
#include <utility>

namespace weft::mds {
namespace {

// A recall costs its client a moment without I/O. So it has to be worth it, and for some time
// (Parts::wrong_for): heartbeats come once a second, and nobody is to move for a burst.
constexpr double kWorth = 1.25;  // what could be read, of what is
constexpr std::chrono::seconds kLeastPause{5};
constexpr std::chrono::minutes kMostPause{5};
constexpr std::size_t kLooksAtOnce = 1024;  // in a tick
constexpr std::size_t kRecallsAtOnce = 8;   // in a tick, of files

}  // namespace

Result<layout::Spares> ReadShares::spares(FileId file, const layout::LayoutMap& map,
                                          const Usable& usable) const {
  auto attributes = parts_.names.getattr(file);
  if (!attributes) return pass(attributes);
  std::map<std::uint32_t, layout::ReaderView> views;
  for (layout::Candidate& server : parts_.candidates(servers_of(map))) {
    if (parts_.reach(server.ds_id) != Reach::kHere) continue;
    if (usable && !usable(server.ds_id)) continue;
    views[server.ds_id] = {std::move(server.load), server.served};
  }
  const auto view_of = [&](std::uint32_t ds_id) -> const layout::ReaderView* {
    const auto it = views.find(ds_id);
    return it == views.end() ? nullptr : &it->second;
  };
  auto spares = layout::spares_of(map, view_of, attributes->size);
  if (!spares) return fail(Errc::kLayoutTryLater, spares.error().text);
  return spares;
}

Result<layout::ReadTurns> ReadShares::turns(FileId file, const layout::LayoutMap& map,
                                            std::size_t most, const Usable& usable) const {
  auto spare = spares(file, map, usable);
  if (!spare) return pass(spare);
  return map.reads == layout::ReadPolicy::kAllCopies ? layout::share_reads(*spare, most)
                                                     : layout::best_of_each(*spare);
}

bool ReadShares::all_here(const layout::LayoutMap& map) const {
  return std::ranges::all_of(
      servers_of(map), [this](std::uint32_t ds_id) { return parts_.reach(ds_id) == Reach::kHere; });
}

void ReadShares::handed_out(FileId file, layout::ReadParts parts) {
  const FileTable::Changing record(parts_.files, file);
  ReadState& state = record->reads;
  if (!record->layouts.grants.several_of(layout::Access::kRead)) {
    state.out.clear();
    state.wrong_since.reset();  // that was of others
  }
  if (std::ranges::find(state.out, parts) != state.out.end()) return;
  if (state.out.empty()) state.look_at = parts_.now() + parts_.look_every;
  if (state.out.size() == ReadState::kMost) state.out.erase(state.out.begin());
  state.out.push_back(std::move(parts));
}

void ReadShares::renew(Clock::time_point now) {
  std::size_t recalls = 0;
  for (const FileId file : parts_.files.due(Due::kReads, now, kLooksAtOnce)) {
    if (recalls == kRecallsAtOnce) return;
    if (!layouts_wrong(file, now)) continue;
    ++recalls;
    parts_.layouts.recall(file, "other copies have more to spare",
                          {.only = layout::Access::kRead, .others_wait = false});
  }
}

// For so long, and not just recalled, that those who read are to be asked for their layouts; they
// count as out no more then.
bool ReadShares::layouts_wrong(FileId file, Clock::time_point now) {
  std::vector<layout::ReadParts> out;
  bool may_be_ahead = false;
  {
    const FileTable::Changing record(parts_.files, file);
    if (record->due(Due::kReads) > now) return false;
    record->reads.look_at = now + parts_.look_every;
    out = record->reads.out;
    may_be_ahead = record->being_written() || record->owes();
    // Or they were recalled, and who has one still does not answer.
    if (out.empty() || !record->layouts.grants.any_of(layout::Access::kRead)) {
      record->reads.out.clear();
      if (now >= record->reads.not_before + record->reads.pause) record->reads = {};
      return false;
    }
  }
  const auto map = layout_map(parts_.files, parts_.names, file);
  // Clients give back by themselves what they only keep that names who is away, and for a Linux
  // client it is better so (kept_layouts.h).
  const bool used = parts_.layouts.used(file);
  if (!used && (!map || !*map || !all_here(**map))) return false;
  const auto spare = map && *map ? spares(file, **map) : Result<layout::Spares>(fail(Errc::kStale));
  bool wrong = false;
  // While leaders may be ahead they are read, whatever they have to spare.
  if (spare && !(may_be_ahead && (*map)->duplication == layout::Duplication::kServerAsync)) {
    const double now_best = layout::use_of(best_parts(**map, *spare), *spare);
    wrong = std::ranges::any_of(out, [&](const layout::ReadParts& parts) {
      return now_best > layout::use_of(parts, *spare) * kWorth;
    });
  }
  const FileTable::Changing record(parts_.files, file);
  ReadState& state = record->reads;
  if (!wrong) {
    state.wrong_since.reset();
    return false;
  }
  // Nobody waits, and who opens the file next reads from the others at once.
  if (!used) {
    state.wrong_since.reset();
    state.out.clear();
    return true;
  }
  if (!state.wrong_since) state.wrong_since = now;
  if (now - *state.wrong_since < parts_.wrong_for || now < state.not_before) return false;
  state.pause = std::clamp<Clock::duration>(2 * state.pause, kLeastPause, kMostPause);
  state.not_before = now + state.pause;
  state.wrong_since.reset();
  state.out.clear();
  return true;
}

layout::ReadParts ReadShares::best_parts(const layout::LayoutMap& map,
                                         const layout::Spares& spares) {
  const std::size_t copies = map.copies.size();
  if (map.reads != layout::ReadPolicy::kAllCopies) {
    return layout::parts_of(layout::best_of_each(spares), copies);
  }
  if (map.type == layout::LayoutType::kFlexFiles) {
    return {layout::parts_among_clients(spares.front())};
  }
  return layout::parts_of(layout::share_reads(spares, layout::kMaxLayoutServers), copies);
}

}  // namespace weft::mds
