// Mirrors: how reads are shared among copies, and layouts for reading that are renewed.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "ganesha-fsal/files/mirrors.h"

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

Result<layout::Spares> Mirrors::spares(FileId file, const layout::LayoutMap& map,
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

Result<layout::ReadTurns> Mirrors::turns_for(FileId file, const layout::LayoutMap& map,
                                             std::size_t most, const Usable& usable) const {
  auto spare = spares(file, map, usable);
  if (!spare) return pass(spare);
  return map.reads == layout::ReadPolicy::kAllCopies ? layout::share_reads(*spare, most)
                                                     : layout::best_of_each(*spare);
}

void Mirrors::renew_reads(Clock::time_point now) {
  std::size_t recalls = 0;
  for (const FileId file : parts_.files.due(Due::kReads, now, kLooksAtOnce)) {
    if (recalls == kRecallsAtOnce) return;
    if (!reads_are_wrong(file, now)) continue;
    ++recalls;
    parts_.layouts.recall(file, "other copies have more to spare",
                          {.only = layout::Access::kRead, .others_wait = false});
  }
}

// For so long, and not just recalled, that those who read are to be asked for their layouts; they
// count as out no more then.
bool Mirrors::reads_are_wrong(FileId file, Clock::time_point now) {
  std::vector<layout::ReadParts> out;
  {
    const FileTable::Changing record(parts_.files, file);
    if (record->due(Due::kReads) > now) return false;
    record->reads.look_at = now + parts_.look_at_reads;
    out = record->reads.out;
    // Or they were recalled, and who has one still does not answer.
    if (out.empty() || !record->layouts.grants.any_of(layout::Access::kRead)) {
      record->reads.out.clear();
      if (now >= record->reads.not_before + record->reads.pause) record->reads = {};
      return false;
    }
  }
  // Clients give back by themselves what they only keep (kept_layouts.h).
  const auto map =
      parts_.layouts.used(file) ? map_of(file) : Result<layout::LayoutMap>(fail(Errc::kStale));
  const auto spare = map ? spares(file, *map) : Result<layout::Spares>(fail(Errc::kStale));
  bool wrong = false;
  if (spare) {
    const double now_best = layout::use_of(best_parts(*map, *spare), *spare);
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
  if (!state.wrong_since) state.wrong_since = now;
  if (now - *state.wrong_since < parts_.wrong_for || now < state.not_before) return false;
  state.pause = std::clamp<Clock::duration>(2 * state.pause, kLeastPause, kMostPause);
  state.not_before = now + state.pause;
  state.wrong_since.reset();
  state.out.clear();
  return true;
}

layout::ReadParts Mirrors::best_parts(const layout::LayoutMap& map, const layout::Spares& spares) {
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
