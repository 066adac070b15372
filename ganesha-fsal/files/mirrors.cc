// Mirrors: who leads, and what layouts name. Losing copies is in exclusion.cc.
#include "ganesha-fsal/files/mirrors.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "ganesha-fsal/files/flex_grant.h"

namespace weft::mds {
namespace {

bool has_copies(const layout::LayoutMap& map) { return map.copies.size() > 1; }

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

// What is known of the servers' loads and room, at one moment; of those that are here only.
class Loads {
 public:
  Loads(const std::function<std::vector<layout::Candidate>()>& servers,
        const std::function<Reach(std::uint32_t)>& reach) {
    for (layout::Candidate& server : servers()) {
      if (reach(server.ds_id) != Reach::kHere) continue;
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

Mirrors::Mirrors(Parts parts) : parts_(std::move(parts)) {}

void Mirrors::unpin(FileId file) {
  const MutexLock lock(mutex_);
  --entries_.at(file).pins;
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
  auto map = parts_.names.layout(file);
  if (!map) return pass(map);
  if (!*map) return fail(Errc::kStale, "no layout");
  return std::move(**map);
}

Result<layout::Leads> Mirrors::choose(const layout::LayoutMap& map,
                                      std::span<const std::uint8_t> before) const {
  const Loads loads(parts_.servers, parts_.reach);
  auto chosen =
      layout::choose_leads(map, loads.of(), parts_.rules, before, loads.has_room(parts_.rules));
  if (chosen) return chosen;
  // One that was lost a moment ago may be back, or will be gone, the next.
  for (const layout::Copy& copy : map.copies) {
    for (std::size_t stripe = 0; stripe < copy.ds_ids.size(); ++stripe) {
      if (copy.state_of(stripe) == layout::CopyState::kCurrent &&
          parts_.reach(copy.ds_ids[stripe]) == Reach::kWait) {
        return fail(Errc::kBusy, "a data server was lost a moment ago");
      }
    }
  }
  return fail(Errc::kLayoutTryLater, chosen.error().text);
}

Result<Mirrors::Target> Mirrors::begin_write(FileId file, const Namespace::MakeLayout& make,
                                             Use use) {
  auto begun = parts_.journal.begin(file, make);
  if (!begun) return pass(begun);
  if (!has_copies(begun->map)) {
    std::vector<std::uint8_t> leads(begun->map.copies.front().ds_ids.size(), 0);
    return Target{{std::move(begun->map), std::move(leads)},
                  Pin(nullptr, file, std::move(begun->pin))};
  }
  {
    const MutexLock lock(mutex_);
    Entry& entry = entries_[file];
    ++entry.pins;
    ++entry.begun;
  }
  Pin pin(this, file, std::move(begun->pin));
  auto view = patiently<View>([&] { return try_begin(file); });
  if (!view) return pass(view);
  if (use == Use::kWrite && view->map.duplication == layout::Duplication::kServerAsync) {
    const MutexLock lock(mutex_);
    Entry& entry = entries_.at(file);
    entry.owing = ++owed_;
    entry.owing_due = Clock::now() + parts_.owing_for;
  }
  return Target{std::move(*view), std::move(pin)};
}

std::vector<Mirrors::Owing> Mirrors::take_owing(std::size_t limit) {
  const auto now = Clock::now();
  std::vector<Owing> due;
  {
    const MutexLock lock(mutex_);
    for (auto& [file, entry] : entries_) {
      if (entry.owing != 0 && entry.pins == 0 && entry.owing_due <= now) {
        due.push_back({file, entry.owing});
      }
    }
  }
  // One that was given a layout after it was looked at here has begun another write.
  std::erase_if(due, [this](const Owing& what) {
    return parts_.layouts.held_for_write(what.file) || parts_.layouts.blocked(what.file);
  });
  due.resize(std::min(due.size(), limit));
  const MutexLock lock(mutex_);
  for (const Owing& what : due) {
    const auto it = entries_.find(what.file);
    if (it != entries_.end()) it->second.owing_due = now + parts_.owing_retry;
  }
  return due;
}

void Mirrors::duplicated(const Owing& what) {
  const MutexLock lock(mutex_);
  const auto it = entries_.find(what.file);
  if (it != entries_.end() && it->second.owing == what.until) it->second.owing = 0;
}

bool Mirrors::owes(FileId file) const {
  const MutexLock lock(mutex_);
  const auto it = entries_.find(file);
  return it != entries_.end() && it->second.owing != 0;
}

Result<Mirrors::View> Mirrors::try_begin(FileId file) {
  const bool inherited = parts_.journal.inherited(file);
  auto map = map_of(file);
  if (!map) return pass(map);
  if (inherited) {
    if (auto fenced = fence_inherited(file, *map); !fenced) return pass(fenced);
  }
  if (auto out = advance_all(file, *map); !out) return pass(out);
  if (auto led = lead(file, *map); !led) return pass(led);
  auto view = look(file);
  if (!view) return view;
  if (auto here = check_here(file, *view); !here) return pass(here);
  if (auto back = call_reads_back(file, view->map); !back) return pass(back);
  return view;
}

// Whoever is to be written is here, or left out.
Result<> Mirrors::check_here(FileId file, const View& view) {
  const bool all = written_by_clients(view.map);
  for (std::size_t stripe = 0; stripe < view.leads.size(); ++stripe) {
    for (std::size_t copy = 0; copy < view.map.copies.size(); ++copy) {
      if (!all && copy != view.leads[stripe]) continue;
      const Reach reach = parts_.reach(view.map.copies[copy].ds_ids[stripe]);
      if (reach == Reach::kHere) continue;
      if (reach == Reach::kWait) return fail(Errc::kBusy, "a copy was lost a moment ago");
      if (auto left = leave_out(file, view.map, {copy, stripe}, Cause::kGone); !left) return left;
      return fail(Errc::kBusy, "a copy is being left out");
    }
  }
  return {};
}

// Sees to it that there are leaders: those that others write with, or wrote with and that owe, or
// new ones.
Result<> Mirrors::lead(FileId file, const layout::LayoutMap& map) {
  std::uint64_t begun = 0;
  std::uint64_t choice = 0;
  std::vector<std::uint8_t> before;
  {
    const MutexLock lock(mutex_);
    const Entry& entry = entries_.at(file);
    begun = entry.begun;
    choice = entry.chosen;
    before = entry.leads;
    if (!before.empty() && (entry.pins > 1 || entry.owing != 0)) return {};
  }
  if (!before.empty() && (parts_.layouts.held_for_write(file) || parts_.layouts.blocked(file))) {
    return {};
  }
  auto chosen = choose(map, all_current(map, before) ? before : std::span<const std::uint8_t>{});
  if (!chosen) return pass(chosen);
  const MutexLock lock(mutex_);
  Entry& entry = entries_.at(file);
  // Whoever came meanwhile may have taken, and handed out, the leaders there are.
  if (entry.begun != begun || entry.chosen != choice) {
    if (entry.leads.empty()) return fail(Errc::kBusy, "others begin to write");
    return {};
  }
  ++entry.chosen;
  if (entry.renamed && map.object_epoch < entry.renamed->epoch) {
    entry.renamed->apply(chosen->copies);
  }
  entry.reads_back = false;  // while nobody wrote, all copies were read
  entry.leads = std::move(chosen->copies);
  return {};
}

// While the first data server may be ahead of the others, nobody reads at them.
Result<> Mirrors::call_reads_back(FileId file, const layout::LayoutMap& map) {
  if (map.duplication != layout::Duplication::kServerAsync) return {};
  {
    const MutexLock lock(mutex_);
    if (entries_.at(file).reads_back) return {};
  }
  const RecallWhat reads{.only = layout::Access::kRead, .others_wait = false};
  parts_.layouts.recall(file, "writers come", reads);
  if (parts_.layouts.returning(file, reads.only)) {
    return fail(Errc::kBusy, "layouts for reading are being recalled");
  }
  const MutexLock lock(mutex_);
  entries_.at(file).reads_back = true;
  return {};
}

// The leaders of an earlier run are not known. Current copies whose servers are gone may have been
// among them; all others refuse what is still brought there.
Result<> Mirrors::fence_inherited(FileId file, const layout::LayoutMap& map) {
  {
    const MutexLock lock(mutex_);
    FenceState& state = entries_.at(file).inherited;
    if (state.is == FenceState::Is::kHolds) return {};
    if (state.is == FenceState::Is::kUnderWay || state.retry_at > Clock::now()) {
      return fail(Errc::kBusy, "writers of before the restart are being fenced");
    }
  }
  std::vector<std::uint32_t> ds_ids;
  for (std::size_t copy = 0; copy < map.copies.size(); ++copy) {
    for (std::size_t stripe = 0; stripe < map.copies[copy].ds_ids.size(); ++stripe) {
      if (!current(map, copy, stripe)) continue;
      const std::uint32_t ds_id = map.copies[copy].ds_ids[stripe];
      if (parts_.reach(ds_id) == Reach::kGone) {
        if (auto left = leave_out(file, map, {copy, stripe}, Cause::kGone); !left) return left;
        return fail(Errc::kBusy, "a copy is being left out");
      }
      ds_ids.push_back(ds_id);
    }
  }
  {
    const MutexLock lock(mutex_);
    FenceState& state = entries_.at(file).inherited;
    if (state.is != FenceState::Is::kNone) return fail(Errc::kBusy, "being fenced");
    state.is = FenceState::Is::kUnderWay;
  }
  control::Fence fence;
  fence.object = parts_.names.object_of(file, map);
  fence.epoch = map.object_epoch;
  parts_.fence(ds_ids, fence, [this, file](const Result<>& outcome) {
    const MutexLock lock(mutex_);
    const auto it = entries_.find(file);
    if (it == entries_.end()) return;
    it->second.inherited.is = outcome ? FenceState::Is::kHolds : FenceState::Is::kNone;
    it->second.inherited.retry_at = Clock::now() + parts_.retry;
  });
  return fail(Errc::kBusy, "writers of before the restart are being fenced");
}

std::vector<std::uint8_t> Mirrors::leads_of(FileId file) const {
  std::vector<std::uint8_t> leads;
  bool stay = false;
  {
    const MutexLock lock(mutex_);
    if (const auto it = entries_.find(file); it != entries_.end()) {
      leads = it->second.leads;
      stay = it->second.pins > 0 || it->second.owing != 0;
    }
  }
  if (!stay && !parts_.layouts.held_for_write(file) && !parts_.layouts.blocked(file)) {
    leads.clear();  // of writers that are gone
  }
  return leads;
}

Result<Mirrors::View> Mirrors::look(FileId file) const {
  std::vector<std::uint8_t> leads = leads_of(file);
  auto map = map_of(file);
  if (!map) return pass(map);
  if (!has_copies(*map)) leads.assign(map->copies.front().ds_ids.size(), 0);
  // An exclusion marks the map first, and then changes the leaders.
  if (!all_current(*map, leads)) return fail(Errc::kBusy, "the leader is changing");
  return View{std::move(*map), std::move(leads)};
}

Result<layout::LayoutServers> Mirrors::servers_for(const View& view, layout::Access access,
                                                   std::size_t most) const {
  const layout::LayoutMap& map = view.map;
  const bool ahead = map.duplication == layout::Duplication::kServerAsync && !view.leads.empty();
  if (access == layout::Access::kReadWrite && view.leads.empty()) {
    return fail(Errc::kBusy, "nobody leads: the file has just got another copy");
  }
  if (access == layout::Access::kReadWrite || ahead || !has_copies(map)) {
    return layout::one_of_each(map, view.leads);
  }
  if (map.reads == layout::ReadPolicy::kAllCopies) {
    const Loads loads(parts_.servers, parts_.reach);
    auto servers = layout::all_of_each(map, layout::readable(map, loads.of(), parts_.rules), most);
    if (servers) return servers;
    return fail(Errc::kLayoutTryLater, servers.error().text);
  }
  const auto chosen = choose(map, {});
  if (!chosen) return fail(Errc::kLayoutTryLater, chosen.error().text);
  return layout::one_of_each(map, chosen->copies);
}

}  // namespace weft::mds
