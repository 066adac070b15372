// A file with two stripes and two copies, and what Mirrors does about it, in memory.
//
// Threading: everything on the test's thread. Ownership: the fixture owns all but what its base
// does.
#pragma once

#include <catch2/catch_test_macros.hpp>

#include "ganesha-fsal/files/mirrors.h"
#include "tests/ganesha-fsal/files/give_back.h"
#include "tests/ganesha-fsal/meta/meta_fixture.h"

namespace weft::mds {

using layout::Access;
using layout::CopyState;
using namespace std::chrono_literals;

struct Recalls : Recaller {
  struct Call {
    FileId file;
    ClientId client;
    std::optional<Access> only;
  };
  std::vector<Call> calls;
  std::function<void()> meanwhile = [] {};
  void recall(FileId file, ClientId client, std::optional<Access> only,
              std::function<void()> /*none*/) override {
    calls.push_back({file, client, only});
    meanwhile();
  }
  void recall_unused(ClientId, std::function<void(bool)> done) override { done(true); }
};

struct NoFencer : Fencer {
  void fence(FileId, ClientId, std::function<void(Result<>)> done) override { done({}); }
};

struct FenceCall {
  std::vector<std::uint32_t> ds_ids;
  control::Fence fence;
  Done<void> done;
};

// Two stripes, two copies: {1, 2} and {3, 4}.
struct MirrorsTest : NamespaceTest {
  MirrorsTest() : f(file(kRootFileId, "f")) { start(); }

  void start() {
    mirrors.reset();
    journal =
        std::make_unique<WriterJournal>(WriterJournal::Parts{.files = files, .names = *names});
    REQUIRE(journal->open());
    Mirrors::Parts parts{
        .files = files,
        .names = *names,
        .journal = *journal,
        .layouts = layouts,
        .reach =
            [this](std::uint32_t id) {
              ++reach_asked[id];
              return reach[id];
            },
        .dead = [this](std::uint32_t id) { return dead.contains(id); },
        .servers =
            [this] {
              std::vector<std::uint32_t> all;
              for (const auto& [id, load] : loads) all.push_back(id);
              return all;
            },
        .candidates =
            [this](std::span<const std::uint32_t> ids) {
              if (const auto hook = std::exchange(choosing, nullptr)) hook();
              std::vector<layout::Candidate> known;
              for (const std::uint32_t id : ids) {
                if (!loads.contains(id)) continue;
                known.push_back({.ds_id = id,
                                 .capacity_bytes = free.contains(id) ? 1U << 30 : 0U,
                                 .free_bytes = free.contains(id) ? free[id] : 0U,
                                 .load = loads[id],
                                 .served = served[id]});
              }
              return known;
            },
        .fence =
            [this](std::span<const std::uint32_t> ids, const control::Fence& fence,
                   Done<void> done) {
              fences.push_back({{ids.begin(), ids.end()}, fence, std::move(done)});
              if (std::ranges::any_of(ids, [&](auto id) { return late.contains(id); })) return;
              if (fence_at_once) fences.back().done({});
              if (const auto hook = std::exchange(fencing, nullptr)) hook();
            },
        .late = [this](const layout::ObjectId&, std::uint32_t id) { return given_up.contains(id); },
        .grants_known = [this] { return grants_known; },
        .doubt = doubt,
        .patience = patience,
        .look_again = patience,
        .retry = 0ms,
        .owing_for = 0ms,
        .owing_retry = 0ms,
        .look_at_reads = 0ms,
        .wrong_for = wrong_for};
    if (asks_for_objects) {
      parts.without = [this](const auto&, const auto&, auto done) {
        if (lost) return done({*lost}, {});
        looks.push_back(std::move(done));
      };
      parts.lacks = [this](std::uint32_t ds_id, const auto&, auto done) {
        ++asked_back;
        done(lost == ds_id);
      };
    }
    mirrors = std::make_unique<Mirrors>(std::move(parts));
  }
  // The metadata server dies and comes back; so no layout is known.
  void restart() {
    mirrors.reset();
    journal.reset();
    for (const FileId file : layouts.files()) {
      for (const Grant& grant : layouts.grants_of(file)) {
        test::give_back(layouts, file, grant.client);
      }
    }
    FileTable::Changing(files, f)->mirrors = {};
    FileTable::Changing(files, f)->journal = {};
    names.reset();
    store.lose_power();
    open();
    start();
  }

  Namespace::MakeLayout make(layout::Duplication how = layout::Duplication::kServerSync) {
    return [how](const InodeAttributes&) -> Result<layout::LayoutMap> {
      layout::LayoutMap made;
      made.stripe_unit = 1 << 20;
      made.copies = {{CopyState::kCurrent, 0, {1, 2}, {}}, {CopyState::kCurrent, 0, {3, 4}, {}}};
      made.duplication = how;
      made.reads = layout::ReadPolicy::kAllCopies;
      return made;
    };
  }
  Result<Mirrors::Target> begin() { return mirrors->begin_write(f, make()); }
  // A layout for writing, as FileData grants it.
  void grant_write(ClientId client) {
    const auto target = begin();
    REQUIRE(target);
    REQUIRE(layouts.grant(f, client, Access::kReadWrite));
  }
  Result<> missed(std::uint32_t reporter, std::uint32_t ds_id, std::uint64_t offset = 0,
                  bool failed_here = false) {
    const auto map = names->layout(f);
    return mirrors->copy_missed(reporter, {.object = names->object_of(f, **map),
                                           .ds_id = ds_id,
                                           .object_epoch = 1,
                                           .extents = {{offset, 4 << 20}},
                                           .failed_here = failed_here});
  }
  CopyState state_of(std::uint32_t ds_id) {
    const auto map = names->layout(f);
    for (const auto& copy : (*map)->copies) {
      for (std::size_t i = 0; i < copy.ds_ids.size(); ++i) {
        if (copy.ds_ids[i] == ds_id) return copy.state_of(i);
      }
    }
    FAIL("no such data server");
    return {};
  }
  std::vector<DirtyExtent> dirty(std::uint32_t ds_id) {
    const auto found = names->stale_objects(ds_id, {}, 10);
    REQUIRE(found);
    return found->empty() ? std::vector<DirtyExtent>{} : found->front().dirty;
  }
  std::uint32_t epoch() { return (*names->layout(f))->object_epoch; }
  layout::ServerLoad busy() {
    layout::ServerLoad load;
    load.cpu_percent = {100};
    load.run_queue_milli = 9000;
    return load;
  }

  const FileId f;
  std::map<std::uint32_t, Reach> reach;              // kHere unless told
  std::map<std::uint32_t, std::size_t> reach_asked;  // how often
  std::set<std::uint32_t> dead;
  Clock::duration doubt = 0ms;
  Clock::duration patience = 0ms;  // who waits does so for progress alone
  Clock::duration wrong_for = 0ms;
  std::map<std::uint32_t, layout::ServerLoad> loads{{1, {}}, {2, {}}, {3, {}}, {4, {}}};
  std::map<std::uint32_t, std::uint64_t> served;  // bytes a second
  std::map<std::uint32_t, std::uint64_t> free;    // bytes, of those that say so
  std::vector<FenceCall> fences;
  bool fence_at_once = false;
  bool asks_for_objects = false;      // set before start()
  std::optional<std::uint32_t> lost;  // it says so at once; else `looks` are to be answered
  int asked_back = 0;                 // data servers that were, when they came back
  using Ids = std::vector<std::uint32_t>;
  std::vector<std::function<void(Ids found, Ids unasked)>> looks;
  std::set<std::uint32_t> late;      // they are not, there
  std::set<std::uint32_t> given_up;  // what was sent there may be carried out yet
  std::function<void()> fencing;     // called once, when something is
  std::function<void()> choosing;    // called once, when leaders are chosen
  bool grants_known = true;
  FileTable files{system_clock()};
  Recalls recalls;
  NoFencer fencer;
  std::set<ClientId> closed;  // clients that only keep their layouts, if they may
  LayoutService layouts{files,
                        recalls,
                        fencer,
                        {},
                        [] { return Clock::now(); },
                        [](FileId) {},
                        [](FileId) {},
                        {.limits = {.per_client = 8}, .in_use = [this](FileId, ClientId client) {
                           return !closed.contains(client);
                         }}};
  std::unique_ptr<WriterJournal> journal;
  std::unique_ptr<Mirrors> mirrors;
};

using Leads = std::vector<std::uint8_t>;
inline const std::vector<DirtyExtent> kWhole{{0, kMaxFileSize}};

}  // namespace weft::mds
