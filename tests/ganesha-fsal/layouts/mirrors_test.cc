// Who leads the writes of a file with copies, and what is so before a write that a copy misses may
// be acknowledged.
#include "ganesha-fsal/layouts/mirrors.h"

#include <catch2/catch_test_macros.hpp>

#include "tests/ganesha-fsal/meta/meta_fixture.h"

namespace weft::mds {
namespace {

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
  void recall(FileId file, ClientId client, std::optional<Access> only,
              std::function<void()> /*none*/) override {
    calls.push_back({file, client, only});
  }
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
struct Fixture : NamespaceTest {
  Fixture() : f(file(kRootFileId, "f")) { start(); }

  void start() {
    mirrors.reset();
    journal = std::make_unique<WriterJournal>(WriterJournal::Parts{
        .names = *names,
        .in_use = [this](FileId id) { return layouts.held_for_write(id) || layouts.blocked(id); }});
    REQUIRE(journal->open());
    Mirrors::Parts parts{.names = *names,
                         .journal = *journal,
                         .layouts = layouts,
                         .reach = [this](std::uint32_t id) { return reach[id]; },
                         .dead = [this](std::uint32_t id) { return dead.contains(id); },
                         .servers =
                             [this] {
                               std::vector<layout::Candidate> all;
                               for (const auto& [id, load] : loads)
                                 all.push_back({.ds_id = id, .load = load});
                               return all;
                             },
                         .fence =
                             [this](std::span<const std::uint32_t> ids, const control::Fence& fence,
                                    Done<void> done) {
                               fences.push_back({{ids.begin(), ids.end()}, fence, std::move(done)});
                               if (fence_at_once) fences.back().done({});
                             },
                         .grants_known = [this] { return grants_known; },
                         .doubt = doubt,
                         .patience = 0ms,
                         .retry = 0ms};
    mirrors = std::make_unique<Mirrors>(std::move(parts));
  }
  // The metadata server dies and comes back; so no layout is known.
  void restart() {
    mirrors.reset();
    journal.reset();
    for (const Grant& grant : layouts.grants(100)) layouts.dropped(grant.file, grant.client);
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
  Result<> missed(std::uint32_t reporter, std::uint32_t ds_id, std::uint64_t offset = 0) {
    const auto map = names->layout(f);
    return mirrors->copy_missed(reporter, {.object = names->object_of(f, **map),
                                           .ds_id = ds_id,
                                           .object_epoch = 1,
                                           .extents = {{offset, 4 << 20}}});
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
  std::map<std::uint32_t, Reach> reach;  // kHere unless told
  std::set<std::uint32_t> dead;
  Clock::duration doubt = 0ms;
  std::map<std::uint32_t, layout::ServerLoad> loads{{1, {}}, {2, {}}, {3, {}}, {4, {}}};
  std::vector<FenceCall> fences;
  bool fence_at_once = false;
  bool grants_known = true;
  Recalls recalls;
  NoFencer fencer;
  LayoutService layouts{recalls, fencer, {}, [] { return Clock::now(); }, [](FileId) {}};
  std::unique_ptr<WriterJournal> journal;
  std::unique_ptr<Mirrors> mirrors;
};

using Leads = std::vector<std::uint8_t>;
const std::vector<DirtyExtent> kWhole{{0, kMaxFileSize}};

}  // namespace

TEST_CASE_METHOD(Fixture, "with one copy nothing is led, excluded or waited for") {
  layout_of(f, {1, 2});
  reach[1] = Reach::kGone;
  const auto target = mirrors->begin_write(f, make());
  REQUIRE(target);
  CHECK(target->leads == Leads{0, 0});
  CHECK(mirrors->exclude(f, 1, Mirrors::Cause::kGone).error() == Errc::kLayoutTryLater);
  CHECK(mirrors->prepare_change(f, {0, 5}));
  CHECK(missed(1, 2).error() == Errc::kInvalid);
  CHECK(fences.empty());
}

TEST_CASE_METHOD(Fixture, "all who write at the same time have the same leaders") {
  SECTION("as long as a proxied write goes on") {
    const auto first = begin();
    REQUIRE(first);
    CHECK(first->leads == Leads{0, 0});
    loads[1] = busy();
    CHECK(begin()->leads == Leads{0, 0});
  }
  SECTION("as long as a layout for writing is out") {
    grant_write(5);
    loads[1] = busy();
    CHECK(begin()->leads == Leads{0, 0});
    CHECK(mirrors->look(f)->leads == Leads{0, 0});
    layouts.returned(f, 5, Access::kReadWrite);
    CHECK(mirrors->look(f)->leads.empty());
    CHECK(begin()->leads == Leads{1, 0});
  }
  SECTION("chosen anew when nobody writes") {
    CHECK(begin()->leads == Leads{0, 0});
    loads[1] = busy();
    CHECK(begin()->leads == Leads{1, 0});
    loads[1] = {};
    CHECK(begin()->leads == Leads{1, 0});  // alike: it stays
    mirrors->tick();                       // forgotten
    CHECK(begin()->leads == Leads{0, 0});
  }
  CHECK(journal->size() == 1);
}

TEST_CASE_METHOD(Fixture, "what a copy misses is durable before the write is acknowledged") {
  grant_write(5);
  const std::uint32_t before = epoch();
  REQUIRE(missed(1, 3));
  CHECK(state_of(3) == CopyState::kStale);
  CHECK(epoch() == before + 1);
  CHECK(dirty(3) == std::vector<DirtyExtent>{{0, 4 << 20}});
  REQUIRE(missed(1, 3, 32 << 20));
  CHECK(dirty(3) == std::vector<DirtyExtent>{{0, 4 << 20}, {32 << 20, 36 << 20}});
  CHECK(recalls.calls.empty());
  CHECK(fences.empty());
  CHECK(begin()->leads == Leads{0, 0});
}

TEST_CASE_METHOD(Fixture, "it waits for those who may read old bytes, not for writers") {
  grant_write(5);
  REQUIRE(layouts.grant(f, 5, Access::kRead));
  REQUIRE(layouts.grant(f, 6, Access::kRead));
  CHECK(missed(1, 3).error() == Errc::kBusy);
  CHECK(state_of(3) == CopyState::kStale);
  CHECK(missed(1, 3).error() == Errc::kBusy);
  REQUIRE(recalls.calls.size() == 2);
  for (const auto& call : recalls.calls) CHECK(call.only == Access::kRead);
  // Nobody who begins to write gets past it either.
  CHECK(begin().error() == Errc::kBusy);
  SECTION("until their layouts are back") {
    layouts.returned(f, 5, Access::kRead);
    CHECK(missed(1, 3).error() == Errc::kBusy);
    // A new one does not name the stale copy.
    REQUIRE(layouts.grant(f, 5, Access::kRead));
    layouts.returned(f, 6, Access::kRead);
    CHECK(missed(1, 3));
    CHECK(begin());
  }
  SECTION("or until the data server refuses them") {
    REQUIRE(fences.size() == 1);
    CHECK(fences[0].ds_ids == std::vector<std::uint32_t>{3});
    CHECK(fences[0].fence.epoch == epoch());
    fences[0].done({});
    CHECK(missed(1, 3));
  }
  SECTION("and a fence that failed is tried again") {
    fences[0].done(fail(Errc::kUnreachable, "away"));
    CHECK(missed(1, 3).error() == Errc::kBusy);
    REQUIRE(fences.size() == 2);
    fences[1].done({});
    CHECK(missed(1, 3));
  }
  check_clean();
}

TEST_CASE_METHOD(Fixture, "soon after a restart layouts are unknown, and only the fence counts") {
  grants_known = false;
  grant_write(5);
  CHECK(missed(1, 3).error() == Errc::kBusy);
  REQUIRE(fences.size() == 1);
  CHECK(missed(1, 3).error() == Errc::kBusy);
  SECTION("") { fences[0].done({}); }
  SECTION("until grace is over") { grants_known = true; }
  CHECK(missed(1, 3));
}

TEST_CASE_METHOD(Fixture, "who was left out himself is not believed") {
  grant_write(5);
  REQUIRE(missed(1, 3));
  CHECK(missed(3, 1).error() == Errc::kFenced);
  CHECK(missed(4, 2).error() == Errc::kFenced);  // current, but 2 leads
  CHECK(missed(2, 3).error() == Errc::kInvalid);
  CHECK(missed(9, 3).error() == Errc::kInvalid);
  CHECK(state_of(1) == CopyState::kCurrent);
  CHECK(state_of(2) == CopyState::kCurrent);
  const auto object = names->object_of(f, **names->layout(f));
  REQUIRE(names->remove(kRootFileId, "f"));
  CHECK(mirrors->copy_missed(1, {object, 3, 1, {{0, 5}}}).error() == Errc::kStale);
}

TEST_CASE_METHOD(Fixture, "a leader is left out: another leads when its forwards are refused") {
  grant_write(5);
  REQUIRE(layouts.grant(f, 6, Access::kRead));
  CHECK(mirrors->exclude(f, 1, Mirrors::Cause::kNoAnswer).error() == Errc::kBusy);
  CHECK(state_of(1) == CopyState::kStale);
  CHECK(dirty(1) == kWhole);  // nobody knows what it took alone
  CHECK(mirrors->look(f)->leads == Leads{1, 0});
  // Both modes: layouts for writing name it.
  REQUIRE(recalls.calls.size() == 2);
  REQUIRE(fences.size() == 2);
  CHECK(fences[0].ds_ids == std::vector<std::uint32_t>{3});
  CHECK(fences[0].fence.epoch == epoch());
  CHECK(missed(1, 3).error() == Errc::kFenced);

  layouts.returned(f, 5, Access::kReadWrite);
  layouts.returned(f, 6, Access::kRead);
  CHECK(mirrors->exclude(f, 1, Mirrors::Cause::kNoAnswer).error() == Errc::kBusy);
  CHECK(begin().error() == Errc::kBusy);
  mirrors->tick();  // does not forget what is still to hold
  CHECK(begin().error() == Errc::kBusy);
  fences[0].done({});
  CHECK(mirrors->exclude(f, 1, Mirrors::Cause::kNoAnswer));
  const auto target = begin();
  REQUIRE(target);
  CHECK(target->leads == Leads{1, 0});
  CHECK(target->map.object_epoch == epoch());
  CHECK(missed(3, 1));  // what it misses from here on is told by the new one
  check_clean();
}

TEST_CASE_METHOD(Fixture, "the last current copy is not left out") {
  grant_write(5);
  REQUIRE(missed(1, 3));
  CHECK(mirrors->exclude(f, 1, Mirrors::Cause::kNoAnswer).error() == Errc::kLayoutTryLater);
  CHECK(state_of(1) == CopyState::kCurrent);
  reach[4] = Reach::kWait;  // current, but not there to go on with
  CHECK(mirrors->exclude(f, 2, Mirrors::Cause::kNoAnswer).error() == Errc::kLayoutTryLater);
  CHECK(state_of(2) == CopyState::kCurrent);
}

TEST_CASE_METHOD(Fixture, "a leader whose disk fails tells so, and is left out") {
  grant_write(5);
  const std::uint32_t before = epoch();
  REQUIRE(missed(1, 1));  // durable; who asks for a layout waits for the rest
  CHECK(state_of(1) == CopyState::kStale);
  CHECK(dirty(1) == kWhole);
  CHECK(epoch() == before + 1);
  CHECK(mirrors->look(f)->leads == Leads{1, 0});
  CHECK(recalls.calls.size() == 1);
  REQUIRE(fences.size() == 2);
  CHECK(fences[0].ds_ids == std::vector<std::uint32_t>{3});
  CHECK(fences[1].ds_ids == std::vector<std::uint32_t>{1});
  CHECK(begin().error() == Errc::kBusy);
  SECTION("told again, it is done") {
    REQUIRE(missed(1, 1));
    CHECK(epoch() == before + 1);
  }
  for (FenceCall& call : fences) call.done({});
  CHECK(begin()->leads == Leads{1, 0});
  SECTION("of what it brings to the others nothing is heard") {
    CHECK(missed(1, 3).error() == Errc::kFenced);
  }
  SECTION("and the one that is left has to do with what it has") {
    CHECK(missed(3, 3).error() == Errc::kNotFound);
    CHECK(state_of(3) == CopyState::kCurrent);
    CHECK(missed(3, 1));
  }
  check_clean();
}

TEST_CASE_METHOD(Fixture, "a copy that cannot be read is left out, whoever leads") {
  SECTION("beside a writer, who notices nothing") {
    grant_write(5);
    REQUIRE(layouts.grant(f, 6, Access::kRead));
    REQUIRE(missed(3, 3));
    REQUIRE(recalls.calls.size() == 1);
    CHECK(recalls.calls[0].client == 6);
    CHECK(mirrors->look(f)->leads == Leads{0, 0});
  }
  SECTION("of a file that nobody writes") {
    REQUIRE(begin());
    mirrors->tick();
    REQUIRE(missed(3, 3));
  }
  CHECK(state_of(3) == CopyState::kStale);
  CHECK(dirty(3) == kWhole);
  CHECK(missed(1, 1).error() == Errc::kNotFound);
  CHECK(missed(2, 2));  // another stripe
}

TEST_CASE_METHOD(Fixture, "the other copy may be back in a moment") {
  grant_write(5);
  reach[3] = Reach::kWait;
  CHECK(missed(1, 1).error() == Errc::kBusy);
  reach[3] = Reach::kGone;
  CHECK(missed(1, 1).error() == Errc::kNotFound);
  CHECK(state_of(1) == CopyState::kCurrent);
  CHECK(missed(9, 9).error() == Errc::kInvalid);  // not of this file
}

TEST_CASE_METHOD(Fixture, "who begins to write finds leaders that are here") {
  fence_at_once = true;
  SECTION("not one that is gone, which misses nothing yet") {
    reach[1] = Reach::kGone;
    CHECK(begin()->leads == Leads{1, 0});
    CHECK(state_of(1) == CopyState::kCurrent);
  }
  SECTION("waits for one that was lost a moment ago") {
    reach[1] = reach[3] = Reach::kWait;
    CHECK(begin().error() == Errc::kBusy);
    reach[1] = Reach::kHere;
    CHECK(begin()->leads == Leads{0, 0});
  }
  SECTION("leaves out one that others write with") {
    grant_write(5);
    reach[1] = Reach::kWait;
    CHECK(begin().error() == Errc::kBusy);
    CHECK(state_of(1) == CopyState::kCurrent);
    reach[1] = Reach::kGone;
    CHECK(begin().error() == Errc::kBusy);
    CHECK(state_of(1) == CopyState::kStale);
    CHECK(begin().error() == Errc::kBusy);  // the other copy, and then it, are fenced
    CHECK(recalls.calls.size() == 1);
    CHECK(begin()->leads == Leads{1, 0});
  }
  SECTION("none at all") {
    reach[1] = reach[3] = Reach::kGone;
    CHECK(begin().error() == Errc::kLayoutTryLater);
    CHECK(mirrors->servers_for(*mirrors->look(f), Access::kRead, 58).error() ==
          Errc::kLayoutTryLater);
  }
  check_clean();
}

TEST_CASE_METHOD(Fixture, "a change by this server is known to all copies that do not get it") {
  REQUIRE(begin());
  mirrors->tick();
  const DirtyExtent changed{5 << 20, 6 << 20};
  SECTION("nothing when all are here") {
    const auto map = mirrors->prepare_change(f, changed);
    REQUIRE(map);
    CHECK(map->copies[0].state == CopyState::kCurrent);
    CHECK(map->copies[1].state == CopyState::kCurrent);
  }
  SECTION("one that is gone is left out") {
    reach[3] = Reach::kGone;
    const auto map = mirrors->prepare_change(f, changed);
    REQUIRE(map);
    CHECK(map->copies[1].state_of(0) == CopyState::kStale);
    CHECK(map->copies[1].state_of(1) == CopyState::kCurrent);
    CHECK(dirty(3) == std::vector<DirtyExtent>{changed});
    REQUIRE(mirrors->prepare_change(f, {9 << 20, 10 << 20}));
    CHECK(dirty(3) == std::vector<DirtyExtent>{changed, {9 << 20, 10 << 20}});
  }
  SECTION("one that led lacks nobody knows what") {
    grant_write(5);
    reach[1] = Reach::kGone;
    fence_at_once = true;
    CHECK(mirrors->prepare_change(f, changed).error() == Errc::kBusy);
    layouts.returned(f, 5, Access::kReadWrite);
    REQUIRE(mirrors->prepare_change(f, changed));
    CHECK(dirty(1) == kWhole);
  }
  SECTION("one that is being repaired lacks it again") {
    REQUIRE(missed(1, 3));
    const auto stale = **names->layout(f);
    auto mending = stale;
    mending.copies[1].set_state(0, CopyState::kResyncing);
    REQUIRE(names->replace_layout(f, stale, mending));
    REQUIRE(mirrors->prepare_change(f, changed));
    CHECK(dirty(3) == std::vector<DirtyExtent>{{0, 4 << 20}, changed});
  }
  SECTION("not when the last is gone") {
    reach[1] = reach[3] = Reach::kGone;
    CHECK(mirrors->prepare_change(f, changed).error() == Errc::kLayoutTryLater);
  }
  check_clean();
}

TEST_CASE_METHOD(Fixture, "when a server goes, layouts that name it are recalled at once") {
  REQUIRE(begin());
  SECTION("those for reading, when it does not lead") {
    grant_write(5);
    REQUIRE(layouts.grant(f, 6, Access::kRead));
    reach[3] = Reach::kGone;
    mirrors->tick();
    REQUIRE(recalls.calls.size() == 1);
    CHECK(recalls.calls[0].client == 6);
    CHECK(recalls.calls[0].only == Access::kRead);
    CHECK(state_of(3) == CopyState::kCurrent);  // it has missed nothing yet
    REQUIRE(layouts.grant(f, 7, Access::kRead));
    mirrors->tick();
    CHECK(recalls.calls.size() == 1);
  }
  SECTION("all of them, and another leads, when it did") {
    grant_write(5);
    reach[1] = Reach::kGone;
    mirrors->tick();
    CHECK(recalls.calls.size() == 1);
    CHECK(state_of(1) == CopyState::kStale);
    CHECK(mirrors->look(f)->leads == Leads{1, 0});
    REQUIRE(fences.size() == 2);
    CHECK(fences[0].ds_ids == std::vector<std::uint32_t>{3});
  }
  SECTION("not those of writers, who notice, when its process is dead: its fence counts") {
    grant_write(5);
    REQUIRE(layouts.grant(f, 5, Access::kRead));
    reach[1] = Reach::kGone;
    dead.insert(1);
    mirrors->tick();
    CHECK(recalls.calls.empty());
    REQUIRE(fences.size() == 2);
    CHECK(fences[1].ds_ids == std::vector<std::uint32_t>{1});
    CHECK(mirrors->exclude(f, 1, Mirrors::Cause::kGone).error() == Errc::kBusy);
    fences[0].done({});
    CHECK(mirrors->exclude(f, 1, Mirrors::Cause::kGone).error() == Errc::kBusy);
    fences[1].done({});
    CHECK(mirrors->exclude(f, 1, Mirrors::Cause::kGone));
    reach[4] = Reach::kGone;
    dead.insert(4);
    mirrors->tick();  // it does not lead
    CHECK(recalls.calls.empty());
  }
  SECTION("each time it goes") {
    REQUIRE(layouts.grant(f, 6, Access::kRead));
    reach[2] = Reach::kGone;
    mirrors->tick();
    layouts.returned(f, 6, Access::kRead);
    reach[2] = Reach::kHere;
    mirrors->tick();
    REQUIRE(layouts.grant(f, 6, Access::kRead));
    reach[2] = Reach::kGone;
    mirrors->tick();
    CHECK(recalls.calls.size() == 2);
  }
  SECTION("not of a file that is elsewhere, or has one copy") {
    const FileId g = file(kRootFileId, "g");
    layout_of(g, {1, 2});
    REQUIRE(layouts.grant(g, 6, Access::kRead));
    REQUIRE(layouts.grant(f, 6, Access::kRead));
    reach[9] = reach[1] = Reach::kGone;
    loads[9] = {};
    mirrors->tick();
    REQUIRE(recalls.calls.size() == 1);
    CHECK(recalls.calls[0].file == f);
  }
}

TEST_CASE_METHOD(Fixture, "writers are asked for layouts when a server is not found dead") {
  doubt = 1h;
  start();
  grant_write(5);
  reach[1] = Reach::kGone;
  mirrors->tick();
  CHECK(recalls.calls.empty());
  CHECK(state_of(1) == CopyState::kStale);
  CHECK(mirrors->exclude(f, 1, Mirrors::Cause::kGone).error() == Errc::kBusy);
  REQUIRE(fences.size() == 2);
  fences[0].done({});
  fences[1].done(fail(Errc::kUnreachable));
  CHECK(mirrors->exclude(f, 1, Mirrors::Cause::kGone).error() == Errc::kBusy);
  CHECK(recalls.calls.empty());
  dead.insert(1);
  CHECK(mirrors->exclude(f, 1, Mirrors::Cause::kGone).error() == Errc::kBusy);
  REQUIRE(fences.size() == 3);
  fences[2].done({});
  CHECK(mirrors->exclude(f, 1, Mirrors::Cause::kGone));
  CHECK(recalls.calls.empty());
}

TEST_CASE_METHOD(Fixture, "writers of before a restart are fenced before others lead") {
  grant_write(5);
  restart();
  REQUIRE(journal->inherited(f));
  CHECK(begin().error() == Errc::kBusy);
  REQUIRE(fences.size() == 1);
  CHECK(fences[0].ds_ids == std::vector<std::uint32_t>{1, 2, 3, 4});
  CHECK(fences[0].fence.epoch == epoch());
  CHECK(begin().error() == Errc::kBusy);
  CHECK(fences.size() == 1);
  fences[0].done({});
  CHECK(begin());
}

TEST_CASE_METHOD(Fixture, "a copy that is gone after a restart may have led") {
  grant_write(5);
  restart();
  reach[3] = Reach::kGone;
  CHECK(begin().error() == Errc::kBusy);
  CHECK(state_of(3) == CopyState::kStale);
  CHECK(dirty(3) == kWhole);
  fence_at_once = true;
  for (int i = 0; i < 3 && !begin(); ++i) continue;
  REQUIRE(begin());
  for (const FenceCall& call : fences) {
    CHECK(std::ranges::find(call.ds_ids, 3) == call.ds_ids.end());
  }
}

TEST_CASE_METHOD(Fixture, "copies left out before a restart are still to be let go of after it") {
  REQUIRE(begin());
  REQUIRE(missed(1, 3));
  restart();
  fence_at_once = true;
  REQUIRE_FALSE(begin());  // inherited
  REQUIRE(begin());
  REQUIRE(layouts.grant(f, 6, Access::kRead));  // does not name it
  CHECK(begin());
  CHECK(recalls.calls.empty());
  restart();
  grants_known = false;
  fence_at_once = false;
  REQUIRE_FALSE(begin());
  REQUIRE(fences.size() >= 1);
  fence_at_once = true;
  fences.back().done({});
  REQUIRE_FALSE(begin());
  CHECK(begin());
  CHECK(fences.back().ds_ids == std::vector<std::uint32_t>{3});
}

TEST_CASE_METHOD(Fixture, "layouts for reading name all current copies that are here") {
  REQUIRE(begin());
  const auto reading = [&] { return mirrors->servers_for(*mirrors->look(f), Access::kRead, 58); };
  using Ids = std::vector<std::uint32_t>;
  CHECK(reading()->ds_ids == Ids{1, 4, 3, 2});
  reach[1] = Reach::kWait;
  CHECK(reading()->ds_ids == Ids{3, 4, 3, 2});
  reach[1] = Reach::kHere;
  REQUIRE(missed(2, 4));
  CHECK(reading()->ds_ids == Ids{1, 2, 3, 2});
  CHECK(mirrors->servers_for(*mirrors->look(f), Access::kRead, 2)->ds_ids.size() == 2);
}

TEST_CASE_METHOD(Fixture,
                 "where the first copy may be ahead, it alone is read while others write") {
  const auto duplicate = make(layout::Duplication::kServerAsync);
  REQUIRE(names->ensure_layout(f, duplicate));
  REQUIRE(layouts.grant(f, 6, Access::kRead));
  CHECK(mirrors->begin_write(f, duplicate).error() == Errc::kBusy);
  REQUIRE(recalls.calls.size() == 1);
  CHECK(recalls.calls[0].only == Access::kRead);
  layouts.returned(f, 6, Access::kRead);
  {
    const auto target = mirrors->begin_write(f, duplicate);
    REQUIRE(target);
    const auto view = mirrors->look(f);
    CHECK(mirrors->servers_for(*view, Access::kRead, 58)->ds_ids ==
          std::vector<std::uint32_t>{1, 2});
    REQUIRE(layouts.grant(f, 6, Access::kRead));
    CHECK(mirrors->begin_write(f, duplicate));
    CHECK(recalls.calls.size() == 1);
  }
  CHECK(mirrors->servers_for(*mirrors->look(f), Access::kRead, 58)->ds_ids.size() == 4);
}

namespace {

// A file whose clients write both copies themselves, at data servers 1 and 3.
class FlexFixture : public Fixture {
 public:
  Result<Mirrors::Target> begin_flex() {
    return mirrors->begin_write(f, [](const InodeAttributes&) -> Result<layout::LayoutMap> {
      layout::LayoutMap made;
      made.type = layout::LayoutType::kFlexFiles;
      made.stripe_unit = 1 << 20;
      made.copies = {{CopyState::kCurrent, 0, {1}, {}}, {CopyState::kCurrent, 0, {3}, {}}};
      made.duplication = layout::Duplication::kClientSync;
      return made;
    });
  }
  void grant_flex(ClientId client) {
    REQUIRE(begin_flex());
    REQUIRE(layouts.grant(f, client, Access::kReadWrite));
  }
};

}  // namespace

TEST_CASE_METHOD(FlexFixture, "a copy that clients write is left out before others go on without") {
  fence_at_once = true;
  reach[3] = Reach::kWait;
  CHECK(begin_flex().error() == Errc::kBusy);
  CHECK(state_of(3) == CopyState::kCurrent);
  reach[3] = Reach::kGone;
  CHECK(begin_flex().error() == Errc::kBusy);
  CHECK(state_of(3) == CopyState::kStale);
  CHECK(dirty(3) == kWhole);
  CHECK(begin_flex().error() == Errc::kBusy);  // the other copy is fenced
  const auto target = begin_flex();
  REQUIRE(target);
  CHECK(target->leads == Leads{0});
  check_clean();
}

TEST_CASE_METHOD(FlexFixture, "a client says that a copy missed what it wrote") {
  grant_flex(5);
  grant_flex(6);
  REQUIRE(layouts.grant(f, 7, Access::kRead));
  REQUIRE(mirrors->missed_by_client(f, 3));  // does not wait
  CHECK(state_of(3) == CopyState::kStale);
  CHECK(dirty(3) == kWhole);  // nobody knows what others wrote at one copy only
  REQUIRE(recalls.calls.size() == 3);
  for (const auto& call : recalls.calls) CHECK((call.only != Access::kRead || call.client == 7));
  REQUIRE(mirrors->missed_by_client(f, 3));
  CHECK(mirrors->missed_by_client(f, 1).error() == Errc::kLayoutTryLater);
  CHECK(state_of(1) == CopyState::kCurrent);

  CHECK(begin_flex().error() == Errc::kBusy);
  for (const ClientId client : {5, 6}) layouts.returned(f, client, Access::kReadWrite);
  CHECK(begin_flex().error() == Errc::kBusy);
  layouts.returned(f, 7, Access::kRead);
  for (std::size_t at = 0; at < fences.size(); ++at) {
    if (fences[at].ds_ids == std::vector<std::uint32_t>{1}) fences[at].done({});
  }
  const auto target = begin_flex();
  REQUIRE(target);
  CHECK(target->leads == Leads{0});
  check_clean();
}

TEST_CASE_METHOD(FlexFixture, "clients that write copies are not asked when a server crashed") {
  doubt = 3h;
  start();
  grant_flex(5);
  REQUIRE(mirrors->missed_by_client(f, 3));  // before its connection is lost for us
  CHECK(state_of(3) == CopyState::kStale);
  reach[3] = Reach::kWait;
  CHECK(begin_flex().error() == Errc::kBusy);
  reach[3] = Reach::kGone;
  dead.insert(3);
  fence_at_once = true;
  for (FenceCall& call : std::exchange(fences, {})) call.done({});
  const auto target = begin_flex();
  REQUIRE(target);
  CHECK(target->leads == Leads{0});
  CHECK(recalls.calls.empty());
  check_clean();
}

TEST_CASE_METHOD(FlexFixture, "layouts for writing that name a server that is gone are recalled") {
  grant_flex(5);
  reach[3] = Reach::kGone;
  mirrors->tick();
  CHECK(state_of(3) == CopyState::kStale);
  CHECK(dirty(3) == kWhole);
  REQUIRE(recalls.calls.size() == 1);
  CHECK(recalls.calls[0].only != Access::kRead);
}

TEST_CASE_METHOD(FlexFixture, "what the server itself writes past a copy that clients write") {
  grant_flex(5);
  CHECK(missed(1, 3).error() == Errc::kBusy);
  CHECK(dirty(3) == kWhole);
  REQUIRE(recalls.calls.size() == 1);
  CHECK(recalls.calls[0].only != Access::kRead);  // a layout for writing may be read with
  layouts.returned(f, 5, Access::kReadWrite);
  CHECK(missed(1, 3));
}

}  // namespace weft::mds
