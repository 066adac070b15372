// A Mover over a namespace in memory. What others do meanwhile the test does.
#pragma once

#include <atomic>
#include <thread>

#include "ganesha-fsal/repair/mover.h"
#include "layout/relocation.h"
#include "tests/ganesha-fsal/repair/fake_copy_servers.h"

namespace weft::mds {

class MoverTest : public RepairTest {
 public:
  MoverTest() {
    for (std::uint32_t id = 1; id <= 6; ++id) {
      Mover::Server& server = known[id];
      server.candidate = {.ds_id = id,
                          .state = layout::ServerState::kUp,
                          .capacity_bytes = 1000U << 20,
                          .free_bytes = 500U << 20,
                          .domain = "d" + std::to_string(id),
                          .load = {}};
      server.reach = Reach::kHere;
    }
  }
  ~MoverTest() { mover.reset(); }

  void make() {
    mover = std::make_unique<Mover>(Mover::Parts{
        .names = *names,
        .servers = [this] { return servers_now(); },
        .lapse = [this](std::uint32_t) { return lapsed; },
        .begin = [this](FileId file, std::uint32_t from,
                        std::uint32_t to) -> Result<layout::LayoutMap> {
          if (immovable) return fail(Errc::kBusy, "it is to be cut first");
          return names->begin_move(file, from, to);
        },
        .hold_unused = [this](FileId, const layout::LayoutMap&) -> Result<std::shared_ptr<void>> {
          if (!unused) return fail(Errc::kBusy, "used");
          ++held;
          return {std::shared_ptr<void>(this, [this](void*) { --held; })};
        },
        .copy = [this](FileId file, const layout::LayoutMap&, std::uint32_t source,
                       std::uint32_t to) { return copy(file, source, to); },
        .allocated = [this](FileId, const layout::LayoutMap&) { return allocated; },
        .exclude = [this](FileId file, std::uint32_t ds) { return exclude(file, ds); },
        .finish = [this](FileId file) -> Result<> {
          auto done = names->finish_move(file);
          return done ? Result<>() : pass(done);
        },
        .fence = [this](std::uint32_t ds_id, std::vector<control::Fence> some) -> Result<> {
          if (!fences_answered) return fail(Errc::kUnreachable, "away");
          for (const control::Fence& one : some) fences.emplace_back(ds_id, one.object.fileid);
          return {};
        },
        .fill = [this](std::uint32_t ds_id) { filled.insert(ds_id); },
        .removals = [this] { ++kicks; },
        .forget = [this](std::uint32_t ds_id) -> Result<> {
          forgotten.insert(ds_id);
          known.erase(ds_id);
          return {};
        },
        .differs = [this](FileId file) { return differing.contains(file); },
        .limits = limits,
        .clock = system_clock()});
  }
  std::vector<Mover::Server> servers_now() {
    std::vector<Mover::Server> out;
    for (const auto& [id, server] : known) out.push_back(server);
    return out;
  }
  Result<> copy(FileId file, std::uint32_t source, std::uint32_t to) {
    const MutexLock lock(mutex_of_copies);
    most_held = std::max(most_held, held.load());
    if (uncopied.contains(file)) return fail(Errc::kTimedOut, "takes too long");
    copies.emplace_back(file, source, to);
    return {};
  }
  // As Mirrors does: the copy is marked, if another is there.
  Result<> exclude(FileId file, std::uint32_t ds_id) {
    ++exclusions;
    const int now = ++excluding;
    for (int most = most_excluding; now > most;) {
      if (most_excluding.compare_exchange_weak(most, now)) break;
    }
    std::this_thread::sleep_for(exclusion_takes);
    --excluding;
    if (exclusion_waits) return fail(Errc::kBusy, "layouts are out");
    const auto map = **names->layout(file);
    const auto seat = layout::seat_of(map, ds_id);
    if (!seat || map.copies[seat->copy].state_of(seat->stripe) != layout::CopyState::kCurrent)
      return {};
    auto marked = names->mark_stale({.id = file,
                                     .copy = static_cast<std::uint32_t>(seat->copy),
                                     .ds_id = ds_id,
                                     .dirty = {{0, kMaxFileSize}}});
    return marked ? Result<>() : pass(marked);
  }
  // Makes every copy current that the namespace lists as stale, of data servers that are here.
  void mend_all() {
    for (const auto& [id, server] : known) {
      if (server.reach != Reach::kHere) continue;
      const auto stale = names->stale_objects(id, std::nullopt, 1000);
      for (const StaleObject& object : *stale) {
        const auto begun = names->begin_resync(object);
        if (begun && *begun) REQUIRE(names->clear_stale((*begun)->object));
      }
    }
  }
  void drain(std::uint32_t ds_id, Duty duty = Duty::kDraining) {
    known[ds_id].duty = duty;
    known[ds_id].candidate.state = layout::ServerState::kDraining;
  }
  void lose(std::uint32_t ds_id, std::chrono::seconds ago = std::chrono::seconds(100)) {
    known[ds_id].reach = Reach::kGone;
    known[ds_id].candidate.state = layout::ServerState::kDown;
    known[ds_id].gone_for = ago;
  }
  std::size_t objects_at(std::uint32_t ds_id) {
    return names->objects_of(ds_id, std::nullopt, 1000)->size();
  }
  void remove_queued() {
    const auto queued = names->pending_removals(std::nullopt, 1000);
    for (const auto& removal : *queued) {
      std::vector<std::uint32_t> here;
      for (const std::uint32_t id : removal.ds_ids) {
        if (known[id].reach == Reach::kHere) here.push_back(id);
      }
      REQUIRE(names->finish_removals({&removal.object, 1}, here));
    }
  }
  // Turns, with everything that others do meanwhile, until nothing is left there.
  bool empties(std::uint32_t ds_id) {
    for (int i = 0; i < 200 && objects_at(ds_id) > 0; ++i) {
      mover->turn();
      mend_all();
      remove_queued();
    }
    return objects_at(ds_id) == 0;
  }
  std::size_t current_copies(FileId file, std::size_t stripe) {
    const auto map = **names->layout(file);
    return static_cast<std::size_t>(std::ranges::count_if(map.copies, [&](const auto& copy) {
      return copy.state_of(stripe) == layout::CopyState::kCurrent;
    }));
  }

  Mover::Limits limits{.look_every = {}, .rest = {}, .linger = {}};
  std::map<std::uint32_t, Mover::Server> known;
  std::unique_ptr<Mover> mover;
  std::vector<std::pair<std::uint32_t, FileId>> fences;
  Result<std::uint64_t> allocated = fail(Errc::kUnreachable, "nobody answers");
  std::set<std::uint32_t> filled;
  std::set<std::uint32_t> forgotten;
  bool lapsed = true;
  bool fences_answered = true;
  bool exclusion_waits = false;
  bool immovable = false;  // every file
  std::chrono::milliseconds exclusion_takes{0};
  std::atomic<int> exclusions = 0;
  std::atomic<int> excluding = 0;  // now
  std::atomic<int> most_excluding = 0;
  int kicks = 0;
  std::set<FileId> differing;
  bool unused = false;  // nobody uses any file
  std::atomic<int> held = 0;
  Mutex mutex_of_copies;
  int most_held WEFT_GUARDED_BY(mutex_of_copies) = 0;
  std::set<FileId> uncopied;
  std::vector<std::tuple<FileId, std::uint32_t, std::uint32_t>> copies
      WEFT_GUARDED_BY(mutex_of_copies);
};

}  // namespace weft::mds
