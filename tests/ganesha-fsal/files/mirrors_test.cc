// Who leads the writes of a file with copies, and what is so before a write that a copy misses may
// be acknowledged.
#include "ganesha-fsal/files/mirrors.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <future>

#include "tests/ganesha-fsal/files/mirrors_fixture.h"

namespace weft::mds {

TEST_CASE_METHOD(MirrorsTest, "with one copy nothing is led, excluded or waited for") {
  layout_of(f, {1, 2});
  reach[1] = Reach::kGone;
  const auto target = mirrors->begin_write(f, make());
  REQUIRE(target);
  CHECK(target->leads == Leads{0, 0});
  CHECK(mirrors->exclude(f, 1, Mirrors::Cause::kGone).error() == Errc::kLayoutTryLater);
  CHECK(mirrors->prepare_change(f, {0, 5}));
  CHECK(missed(1, 2));  // of another stripe
  CHECK(missed(9, 2).error() == Errc::kFenced);
  CHECK(fences.empty());
}

TEST_CASE_METHOD(MirrorsTest, "all who write at the same time have the same leaders") {
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

TEST_CASE_METHOD(MirrorsTest, "a server that is nearly full leads nothing that another can") {
  free = {{1, 10 << 20}, {3, 500 << 20}, {2, 10 << 20}, {4, 10 << 20}};
  CHECK(begin()->leads == Leads{1, 0});
  SECTION("also if it led before it was") {
    free[1] = 500 << 20;
    free[3] = 10 << 20;
    CHECK(begin()->leads == Leads{0, 0});
  }
  SECTION("while somebody writes the leaders stay") {
    grant_write(5);
    free[1] = 500 << 20;
    free[3] = 0;
    CHECK(begin()->leads == Leads{1, 0});
  }
  SECTION("the last that is here leads, full or not") {
    reach[3] = Reach::kGone;
    CHECK(begin()->leads == Leads{0, 0});
  }
}

TEST_CASE_METHOD(MirrorsTest, "memory counts that the file's part at a server does not fit in") {
  for (auto& [id, load] : loads) {
    load.disk.max = load.network.max = 100;
    load.memory_free = 100 << 20;
  }
  loads[1].disk.used = 40;
  SECTION("of a file that is to become long or short") { CHECK(begin()->leads == Leads{0, 0}); }
  SECTION("of a file that is longer") {
    REQUIRE(names->grow_size({.id = f, .end = 300 << 20}));  // 150 MiB of it at each
    CHECK(begin()->leads == Leads{1, 0});
  }
  SECTION("of a file that is shorter, also where little is free") {
    for (auto& [id, load] : loads) load.memory_free = 4 << 20;
    REQUIRE(names->grow_size({.id = f, .end = 7 << 20}));
    CHECK(begin()->leads == Leads{0, 0});
    mirrors->tick();  // forgotten
    REQUIRE(names->grow_size({.id = f, .end = 8 << 20}));
    CHECK(begin()->leads == Leads{1, 0});
  }
}

TEST_CASE_METHOD(MirrorsTest, "what a copy misses is durable before the write is acknowledged") {
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

TEST_CASE_METHOD(MirrorsTest, "it waits for those who may read old bytes, not for writers") {
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

TEST_CASE_METHOD(MirrorsTest,
                 "soon after a restart layouts are unknown, and only the fence counts") {
  grants_known = false;
  grant_write(5);
  CHECK(missed(1, 3).error() == Errc::kBusy);
  REQUIRE(fences.size() == 1);
  CHECK(missed(1, 3).error() == Errc::kBusy);
  SECTION("") { fences[0].done({}); }
  SECTION("until grace is over") { grants_known = true; }
  CHECK(missed(1, 3));
}

TEST_CASE_METHOD(MirrorsTest, "who was left out himself is not believed") {
  grant_write(5);
  REQUIRE(missed(1, 3));
  CHECK(missed(3, 1).error() == Errc::kFenced);
  CHECK(missed(4, 2).error() == Errc::kFenced);  // current, but 2 leads
  CHECK(missed(9, 3).error() == Errc::kFenced);
  CHECK(state_of(1) == CopyState::kCurrent);
  CHECK(state_of(2) == CopyState::kCurrent);
  const auto object = names->object_of(f, **names->layout(f));
  REQUIRE(names->remove(kSuperuser, kRootFileId, "f"));
  CHECK(mirrors->copy_missed(1, {object, 3, 1, {{0, 5}}}).error() == Errc::kStale);
}

TEST_CASE_METHOD(MirrorsTest, "a leader is left out: another leads when its forwards are refused") {
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

TEST_CASE_METHOD(MirrorsTest, "who begins to write waits as long as he says") {
  grant_write(5);
  CHECK(mirrors->exclude(f, 1, Mirrors::Cause::kNoAnswer).error() == Errc::kBusy);
  layouts.returned(f, 5, Access::kReadWrite);
  CHECK(begin().error() == Errc::kBusy);  // as long as patience is
  REQUIRE(fences.size() == 2);
  auto target = std::async(std::launch::async, [this] {
    return mirrors->begin_write(f, make(), Mirrors::Use::kWrite, Clock::now() + 1h);
  });
  CHECK(target.wait_for(500ms) == std::future_status::timeout);  // patience is over
  SECTION("for what is under way") {
    fences[0].done({});
    const auto begun = target.get();
    REQUIRE(begun);
    CHECK(begun->leads == Leads{1, 0});
  }
  SECTION("but not when the server stops") {
    mirrors->stop();
    CHECK(target.get().error() == Errc::kBusy);
  }
}

TEST_CASE_METHOD(MirrorsTest, "the last current copy is not left out") {
  grant_write(5);
  REQUIRE(missed(1, 3));
  CHECK(mirrors->exclude(f, 1, Mirrors::Cause::kNoAnswer).error() == Errc::kLayoutTryLater);
  CHECK(state_of(1) == CopyState::kCurrent);
  reach[4] = Reach::kWait;  // current, but not there to go on with
  CHECK(mirrors->exclude(f, 2, Mirrors::Cause::kNoAnswer).error() == Errc::kLayoutTryLater);
  CHECK(state_of(2) == CopyState::kCurrent);
}

TEST_CASE_METHOD(MirrorsTest, "nobody goes on by a recall that another thread has yet to send") {
  grant_write(5);
  REQUIRE(layouts.grant(f, 9, Access::kRead));
  fence_at_once = true;
  late = {1};
  Result<> beside;
  fencing = [&] {
    beside = mirrors->exclude(f, 1, Mirrors::Cause::kNoAnswer);
    CHECK(layouts.recalled(f, 9, Access::kRead));
  };
  CHECK(mirrors->exclude(f, 1, Mirrors::Cause::kNoAnswer).error() == Errc::kBusy);
  CHECK(beside.error() == Errc::kBusy);
  CHECK(recalls.calls.size() == 2);  // of two clients, once each
  test::give_back(layouts, f, 5);
  test::give_back(layouts, f, 9);
  CHECK(mirrors->exclude(f, 1, Mirrors::Cause::kNoAnswer));
}

TEST_CASE_METHOD(MirrorsTest, "a leader whose disk fails tells so, and is left out") {
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

TEST_CASE_METHOD(MirrorsTest, "whose own store failed is not believed of a copy that is here") {
  grant_write(5);
  SECTION("it is left out itself") {
    CHECK(missed(1, 3, 0, true).error() == Errc::kFenced);
    CHECK(state_of(1) == CopyState::kStale);
    CHECK(state_of(3) == CopyState::kCurrent);
    CHECK(mirrors->look(f)->leads == Leads{1, 0});
  }
  SECTION("the other may be back in a moment") {
    reach[3] = Reach::kWait;
    CHECK(missed(1, 3, 0, true).error() == Errc::kBusy);
    CHECK(state_of(1) == CopyState::kCurrent);
    CHECK(state_of(3) == CopyState::kCurrent);
  }
  SECTION("the other is gone: what there is, is here") {
    reach[3] = Reach::kGone;
    CHECK(missed(1, 3, 0, true));
    CHECK(state_of(1) == CopyState::kCurrent);
    CHECK(state_of(3) == CopyState::kStale);
  }
  SECTION("of one that is stale, what more it lacks is noted") {
    REQUIRE(missed(1, 3));
    CHECK(missed(1, 3, 8 << 20, true));
    CHECK(state_of(1) == CopyState::kCurrent);
    CHECK(dirty(3).size() == 2);
  }
  check_clean();
}

TEST_CASE_METHOD(MirrorsTest, "a copy that cannot be read is left out, whoever leads") {
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

TEST_CASE_METHOD(MirrorsTest, "the other copy may be back in a moment") {
  grant_write(5);
  reach[3] = Reach::kWait;
  CHECK(missed(1, 1).error() == Errc::kBusy);
  reach[3] = Reach::kGone;
  CHECK(missed(1, 1).error() == Errc::kNotFound);
  CHECK(state_of(1) == CopyState::kCurrent);
  CHECK(missed(9, 9).error() == Errc::kFenced);  // not of this file
}

TEST_CASE_METHOD(MirrorsTest, "who begins to write finds leaders that are here") {
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
    CHECK(mirrors->servers_for(f, *mirrors->look(f), Access::kRead, 58).error() ==
          Errc::kLayoutTryLater);
  }
  check_clean();
}

TEST_CASE_METHOD(MirrorsTest, "a change by this server is known to all copies that do not get it") {
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
    REQUIRE(names->begin_resync({.id = f, .copy = 1, .ds_id = 3}));
    REQUIRE(mirrors->prepare_change(f, changed));
    CHECK(dirty(3) == std::vector<DirtyExtent>{{0, 4 << 20}, changed});
  }
  SECTION("not when the last is gone") {
    reach[1] = reach[3] = Reach::kGone;
    CHECK(mirrors->prepare_change(f, changed).error() == Errc::kLayoutTryLater);
  }
  check_clean();
}

TEST_CASE_METHOD(MirrorsTest, "layouts for reading name all current copies that are here") {
  REQUIRE(begin());
  const auto reading = [&] {
    return mirrors->servers_for(f, *mirrors->look(f), Access::kRead, 58);
  };
  using Ids = std::vector<std::uint32_t>;
  CHECK(reading()->ds_ids == Ids{1, 4, 3, 2});
  reach[1] = Reach::kWait;
  CHECK(reading()->ds_ids == Ids{3, 4, 3, 2});
  reach[1] = Reach::kHere;
  REQUIRE(missed(2, 4));
  CHECK(reading()->ds_ids == Ids{1, 2, 3, 2});
  CHECK(mirrors->servers_for(f, *mirrors->look(f), Access::kRead, 2)->ds_ids.size() == 2);
}

TEST_CASE_METHOD(MirrorsTest, "a client is sent to read where it has a way to, and stays there") {
  REQUIRE(begin());
  const auto reading = [&](std::set<std::uint32_t> ways) {
    return mirrors->servers_for(f, *mirrors->look(f), Access::kRead, 58,
                                [ways](std::uint32_t ds_id) { return ways.contains(ds_id); });
  };
  using Ids = std::vector<std::uint32_t>;
  CHECK(reading({1, 2})->ds_ids == Ids{1, 2});
  CHECK(reading({2, 3})->ds_ids == Ids{3, 2});
  CHECK(reading({1, 3}).error() == Errc::kLayoutTryLater);
  CHECK(FileTable::Looking(files, f)
            ->reads.out.empty());  // renewed by nobody: there is nothing better for it
  CHECK(reading({1, 2, 3, 4}));
}

TEST_CASE_METHOD(MirrorsTest,
                 "where the first copy may be ahead, it alone is read while others write") {
  const auto duplicate = make(layout::Duplication::kServerAsync);
  REQUIRE(names->ensure_layout(f, duplicate));
  REQUIRE(layouts.grant(f, 6, Access::kRead));
  CHECK(mirrors->begin_write(f, duplicate).error() == Errc::kBusy);
  REQUIRE(recalls.calls.size() == 1);
  CHECK(recalls.calls[0].only == Access::kRead);
  // Who looks again while he waits does not wake who waits.
  const auto progress = files.progress(f);
  CHECK(mirrors->begin_write(f, duplicate).error() == Errc::kBusy);
  CHECK(files.progress(f) == progress);
  layouts.returned(f, 6, Access::kRead);
  {
    const auto target = mirrors->begin_write(f, duplicate);
    REQUIRE(target);
    const auto view = mirrors->look(f);
    CHECK(mirrors->servers_for(f, *view, Access::kRead, 58)->ds_ids ==
          std::vector<std::uint32_t>{1, 2});
    REQUIRE(layouts.grant(f, 6, Access::kRead));
    CHECK(mirrors->begin_write(f, duplicate));
    CHECK(recalls.calls.size() == 1);
  }
  // What they wrote may be on its way yet.
  CHECK(mirrors->servers_for(f, *mirrors->look(f), Access::kRead, 58)->ds_ids.size() == 2);
  const auto owing = mirrors->take_owing(10);
  REQUIRE(owing.size() == 1);
  mirrors->duplicated(owing[0]);
  CHECK(mirrors->servers_for(f, *mirrors->look(f), Access::kRead, 58)->ds_ids.size() == 4);
  // This one may read anywhere, and is asked for his layout though the same will lead again.
  layouts.returned(f, 6, Access::kRead);
  REQUIRE(layouts.grant(f, 7, Access::kRead));
  CHECK(mirrors->begin_write(f, duplicate, Mirrors::Use::kPin));  // not by who writes nothing
  CHECK(recalls.calls.size() == 1);
  CHECK(mirrors->begin_write(f, duplicate).error() == Errc::kBusy);
  CHECK(recalls.calls.size() == 2);
}

TEST_CASE_METHOD(MirrorsTest,
                 "who reads leaders alone gets the others, too, when they may be read") {
  for (auto& [id, load] : loads) load.network.max = 100;
  const auto duplicate = make(layout::Duplication::kServerAsync);
  const auto recalled = [&] {
    mirrors->tick();
    return recalls.calls.size();
  };
  {
    const auto target = mirrors->begin_write(f, duplicate);
    REQUIRE(target);
    REQUIRE(layouts.grant(f, 6, Access::kRead));
    REQUIRE(mirrors->servers_for(f, *mirrors->look(f), Access::kRead, 58)->ds_ids.size() == 2);
    CHECK(recalled() == 0);
  }
  CHECK(recalled() == 0);  // what was written may be on its way yet
  const auto owing = mirrors->take_owing(10);
  REQUIRE(owing.size() == 1);
  CHECK(recalled() == 0);
  mirrors->duplicated(owing[0]);
  REQUIRE(recalled() == 1);
  CHECK(recalls.calls[0].client == 6);
  CHECK(recalls.calls[0].only == Access::kRead);
  layouts.returned(f, 6, Access::kRead);
  REQUIRE(layouts.grant(f, 6, Access::kRead));
  CHECK(mirrors->servers_for(f, *mirrors->look(f), Access::kRead, 58)->ds_ids.size() == 4);
  CHECK(recalled() == 1);
}

TEST_CASE_METHOD(MirrorsTest, "a layout ends without COMMIT: who may be ahead goes on leading") {
  const auto duplicate = make(layout::Duplication::kServerAsync);
  REQUIRE(mirrors->begin_write(f, duplicate));
  REQUIRE(layouts.grant(f, 5, Access::kReadWrite));
  CHECK(mirrors->look(f)->leads == Leads{0, 0});
  CHECK(mirrors->take_owing(10).empty());  // he may write
  if (GENERATE(false, true)) {
    layouts.revoke(f, 5, "lease expired");
  } else {
    layouts.returned(f, 5, Access::kReadWrite);
  }
  mirrors->tick();
  loads = {{1, busy()}, {2, busy()}, {3, {}}, {4, {}}};
  SECTION("until it is duplicated") {
    CHECK(mirrors->look(f)->leads == Leads{0, 0});
    CHECK(mirrors->begin_write(f, duplicate)->leads == Leads{0, 0});
    const auto owing = mirrors->take_owing(10);
    REQUIRE(owing.size() == 1);
    CHECK(mirrors->take_owing(0).empty());
    CHECK(mirrors->owes(f));
    mirrors->duplicated(owing[0]);
    CHECK_FALSE(mirrors->owes(f));
    CHECK(mirrors->begin_write(f, duplicate)->leads == Leads{1, 1});
  }
  SECTION("though another wrote meanwhile") {
    const auto owing = mirrors->take_owing(10);
    REQUIRE(mirrors->begin_write(f, duplicate));
    REQUIRE(owing.size() == 1);
    mirrors->duplicated(owing[0]);
    CHECK(mirrors->owes(f));
    CHECK(mirrors->begin_write(f, duplicate)->leads == Leads{0, 0});
  }
  SECTION("to pin them owes nothing more") {
    const auto owing = mirrors->take_owing(10);
    {
      const auto pinned = mirrors->begin_write(f, duplicate, Mirrors::Use::kPin);
      REQUIRE(pinned);
      CHECK(pinned->leads == Leads{0, 0});
    }
    mirrors->duplicated(owing.at(0));
    CHECK_FALSE(mirrors->owes(f));
  }
  SECTION("or its server is gone") {
    fence_at_once = true;
    reach[1] = Reach::kGone;
    // Left out first, then fenced.
    for (int i = 0; i < 3; ++i) static_cast<void>(mirrors->begin_write(f, duplicate));
    CHECK(state_of(1) == CopyState::kStale);
    const auto target = mirrors->begin_write(f, duplicate);
    REQUIRE(target);
    CHECK(target->leads == Leads{1, 0});
  }
}

TEST_CASE_METHOD(MirrorsTest, "with synchronous duplication nothing is owed") {
  grant_write(5);
  layouts.returned(f, 5, Access::kReadWrite);
  CHECK_FALSE(mirrors->owes(f));
  CHECK(mirrors->look(f)->leads.empty());
}

}  // namespace weft::mds
