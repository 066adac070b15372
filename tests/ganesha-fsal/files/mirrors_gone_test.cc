// What happens to layouts and copies when a data server goes, and after a restart.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "tests/ganesha-fsal/files/mirrors_fixture.h"

namespace weft::mds {

TEST_CASE_METHOD(MirrorsTest, "when a server goes, layouts that name it are recalled at once") {
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

TEST_CASE_METHOD(MirrorsTest, "when a server goes, files that are elsewhere are not looked at") {
  constexpr FileId kElsewhere = FileId{1} << 20;  // none of the namespace's
  const layout::LayoutMap elsewhere = make()({}).value();
  for (FileId other = kElsewhere; other < kElsewhere + 10'000; ++other) {
    REQUIRE(layouts.grant(other, 6, Access::kRead));
    files.map_changed(other, &elsewhere);
  }
  for (const auto* const name : {"a", "b", "c"}) {
    const FileId own = file(kRootFileId, name);
    const layout::LayoutMap map = layout_of(own, {1, 2}, {3, 9});
    REQUIRE(layouts.grant(own, 6, Access::kRead));
    files.map_changed(own, &map);
  }
  loads[9] = {};
  reach[9] = Reach::kGone;
  mirrors->tick();
  CHECK(recalls.calls.size() == 3);
  CHECK(reach_asked[9] == 1 + 3);  // whether it is gone, and before each of its files
}

TEST_CASE_METHOD(MirrorsTest, "when a leader goes, many files are marked with one sync") {
  constexpr std::size_t kFiles = 700;
  std::size_t led = 0;
  for (std::size_t i = 0; i < kFiles; ++i) {
    const FileId one = file(kRootFileId, "file" + std::to_string(i));
    REQUIRE(mirrors->begin_write(one, make()));
    REQUIRE(layouts.grant(one, 5, Access::kReadWrite));
    led += mirrors->look(one)->leads[0] == 0 ? 1 : 0;
  }
  REQUIRE(led > 256);
  reach[1] = Reach::kGone;
  const std::uint64_t before = store.syncs();
  mirrors->tick();
  CHECK(store.syncs() - before == (led + 255) / 256);
  CHECK(fences.size() == 2 * led);
  store.lose_power();  // fences are out: what they are for is durable
  CHECK(names->stale_objects(1, {}, kFiles)->size() == led);
}

TEST_CASE_METHOD(MirrorsTest, "layouts that name a server are recalled until it is back") {
  const FileId g = file(kRootFileId, "g");
  REQUIRE(begin());
  REQUIRE(mirrors->begin_write(g, make()));
  REQUIRE(layouts.grant(f, 6, Access::kRead));
  REQUIRE(layouts.grant(g, 6, Access::kRead));
  reach[3] = Reach::kGone;
  recalls.meanwhile = [&] { reach[3] = Reach::kHere; };
  mirrors->tick();
  CHECK(recalls.calls.size() == 1);
}

TEST_CASE_METHOD(MirrorsTest, "writers are asked for layouts when a server is not found dead") {
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

TEST_CASE_METHOD(MirrorsTest, "a fence of an exclusion that is over says nothing of the next one") {
  REQUIRE(begin());
  REQUIRE(layouts.grant(f, 6, Access::kRead));
  CHECK(mirrors->exclude(f, 3, Mirrors::Cause::kNoAnswer).error() == Errc::kBusy);
  REQUIRE(fences.size() == 1);
  CHECK(fences[0].ds_ids == std::vector<std::uint32_t>{3});

  const auto stale = names->stale_objects(3, {}, 1);
  REQUIRE(stale);
  REQUIRE(stale->size() == 1);
  const auto begun = names->begin_resync(stale->front());
  REQUIRE(begun);
  REQUIRE(names->clear_stale((*begun)->object).value());
  mirrors->tick();  // the exclusion is over

  CHECK(mirrors->exclude(f, 3, Mirrors::Cause::kNoAnswer).error() == Errc::kBusy);
  REQUIRE(fences.size() == 2);
  fences[0].done({});  // at last
  CHECK(mirrors->exclude(f, 3, Mirrors::Cause::kNoAnswer).error() == Errc::kBusy);
  fences[1].done({});
  CHECK(mirrors->exclude(f, 3, Mirrors::Cause::kNoAnswer));
}

TEST_CASE_METHOD(MirrorsTest, "writers of before a restart are fenced before others lead") {
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

TEST_CASE_METHOD(MirrorsTest, "who writes goes on as soon as a leader that is gone is left out") {
  patience = 5s;
  fence_at_once = true;
  start();
  const auto first = begin();
  REQUIRE(first);
  reach[1] = Reach::kGone;
  const auto before = files.now();
  CHECK(begin()->leads == Leads{1, 0});
  CHECK(files.now() - before < 2s);
}

// The fence may be there before it is at the leader.
TEST_CASE_METHOD(MirrorsTest, "what the fence of earlier writers stops is no loss of a copy") {
  grant_write(5);
  const std::uint32_t before = epoch();
  restart();
  REQUIRE(begin().error() == Errc::kBusy);
  REQUIRE(epoch() > before);
  const auto missed = [this](std::uint32_t by) {
    const auto object = names->object_of(f, **names->layout(f));
    return mirrors->copy_missed(1, {object, 3, by, {{0, 5}}});
  };
  const auto unsettled = journal->unsettled(f);
  REQUIRE(unsettled);
  CHECK(missed(before).error() == Errc::kFenced);
  CHECK(state_of(3) == CopyState::kCurrent);
  CHECK(journal->unsettled(f)->doubted > unsettled->doubted);
  // A handle of this run is not fenced: its writer goes on.
  static_cast<void>(missed(epoch()));
  CHECK(state_of(3) == CopyState::kStale);
}

// The first write would make it anew, and it would be taken for what the others are to be equal to.
TEST_CASE_METHOD(MirrorsTest, "a copy that lost its object is left out before anybody writes") {
  asks_for_objects = true;
  fence_at_once = true;
  start();
  REQUIRE(begin());
  CHECK(looks.empty());  // nothing is in doubt, and there is nothing to lose
  journal->doubt(f);
  CHECK(begin().error() == Errc::kBusy);
  CHECK(begin().error() == Errc::kBusy);
  REQUIRE(looks.size() == 1);
  SECTION("all have it") {
    looks[0]({}, {});
    CHECK(begin()->leads == Leads{0, 0});
    CHECK(looks.size() == 1);
  }
  SECTION("one has not") {
    looks[0]({1}, {});
    for (int i = 0; i < 3 && !begin(); ++i) continue;
    CHECK(begin()->leads == Leads{1, 0});
    CHECK(state_of(1) == CopyState::kStale);
    CHECK(dirty(1) == kWhole);
    CHECK(looks.size() == 1);
  }
  SECTION("another doubt, another look") {
    journal->doubt(f);
    looks[0]({}, {});
    CHECK(begin().error() == Errc::kBusy);
    CHECK(looks.size() == 2);
  }
}

TEST_CASE_METHOD(MirrorsTest, "a file that has bytes is looked at before it is written again") {
  asks_for_objects = true;
  fence_at_once = true;
  start();
  REQUIRE(names->grow_size({.id = f, .end = 100}));
  CHECK(begin().error() == Errc::kBusy);
  CHECK(begin().error() == Errc::kBusy);
  REQUIRE(looks.size() == 1);
  SECTION("once, as long as somebody writes it") {
    looks[0]({}, {});
    {
      const auto target = begin();
      REQUIRE(target);
      mirrors->tick();
      CHECK(begin());
      CHECK(looks.size() == 1);
    }
    mirrors->tick();
    CHECK(begin().error() == Errc::kBusy);
    CHECK(looks.size() == 2);
  }
  SECTION("again, when one was away just then") {
    reach[3] = GENERATE(Reach::kWait, Reach::kHere);  // or is back already
    looks[0]({}, {3});
    CHECK(begin().error() == Errc::kBusy);
    REQUIRE(looks.size() == 2);
    reach[3] = Reach::kHere;
    looks[1]({3}, {});
    for (int i = 0; i < 3 && !begin(); ++i) continue;
    CHECK(begin()->leads == Leads{0, 0});
    CHECK(state_of(3) == CopyState::kStale);
  }
  SECTION("without one that is gone") {
    reach[3] = Reach::kGone;
    looks[0]({}, {3});
    for (int i = 0; i < 3 && !begin(); ++i) continue;
    CHECK(begin());
    CHECK(looks.size() == 1);
  }
  SECTION("and a copy that has lost its object is left out") {
    looks[0]({3}, {});
    for (int i = 0; i < 3 && !begin(); ++i) continue;
    CHECK(begin()->leads == Leads{0, 0});
    CHECK(state_of(3) == CopyState::kStale);
    CHECK(dirty(3) == kWhole);
    CHECK(looks.size() == 1);
  }
}

// The first writer has not told how far he has come, and not all copies have what he writes yet.
TEST_CASE_METHOD(MirrorsTest, "a file that had no bytes is not looked at while it gets some") {
  asks_for_objects = true;
  start();
  const auto first = begin();
  REQUIRE(first);
  REQUIRE(names->grow_size({.id = f, .end = 100}));
  CHECK(begin());
  CHECK(looks.empty());
}

TEST_CASE_METHOD(MirrorsTest, "what is written next waits where something may come late") {
  REQUIRE(begin());
  mirrors->tick();  // who led is forgotten
  given_up = {1};
  loads[1] = busy();
  SECTION("it goes the way that went") {
    CHECK(begin()->leads == Leads{0, 0});
    given_up.clear();
    CHECK(begin()->leads == Leads{1, 0});
  }
  SECTION("which may be back in a moment") {
    reach[1] = Reach::kWait;
    CHECK(begin().error() == Errc::kBusy);
    CHECK(state_of(1) == CopyState::kCurrent);
  }
  SECTION("there are two of them") {
    given_up.insert(3);
    CHECK(begin().error() == Errc::kBusy);
    CHECK(state_of(1) == CopyState::kCurrent);
    CHECK(state_of(3) == CopyState::kCurrent);
  }
  SECTION("or without it, when what it brings to the others is refused") {
    reach[1] = Reach::kGone;
    if (GENERATE(true, false)) {
      CHECK(begin().error() == Errc::kBusy);
    } else {
      CHECK(mirrors->prepare_change(f, {0, 5}).error() == Errc::kBusy);
    }
    CHECK(state_of(1) == CopyState::kStale);
    CHECK(dirty(1) == kWhole);
    CHECK(begin().error() == Errc::kBusy);
    REQUIRE_FALSE(fences.empty());
    CHECK(fences[0].ds_ids == std::vector<std::uint32_t>{3});
    CHECK(fences[0].fence.epoch == epoch());
    fences[0].done({});
    CHECK(begin()->leads == Leads{1, 0});
  }
  check_clean();
}

TEST_CASE_METHOD(MirrorsTest, "while others may write it is too late to look for lost objects") {
  asks_for_objects = true;
  start();
  grant_write(5);
  journal->doubt(f);
  CHECK(begin());
  CHECK(looks.empty());
}

TEST_CASE_METHOD(MirrorsTest, "who comes back without an object that is written is left out") {
  asks_for_objects = true;
  fence_at_once = true;
  start();
  SECTION("of a file that nobody may write it is asked when somebody may") {
    mirrors->returning(3);
    CHECK(asked_back == 0);
  }
  SECTION("nothing is lost") {
    grant_write(5);
    mirrors->returning(3);
    CHECK(asked_back == 1);
    CHECK(state_of(3) == CopyState::kCurrent);
  }
  SECTION("its object is lost") {
    grant_write(5);
    lost = 3;
    mirrors->returning(1);
    CHECK(state_of(3) == CopyState::kCurrent);
    mirrors->returning(3);
    CHECK(state_of(3) == CopyState::kStale);
    CHECK(dirty(3) == kWhole);
  }
}

TEST_CASE_METHOD(MirrorsTest, "a copy that is gone after a restart may have led") {
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

TEST_CASE_METHOD(MirrorsTest,
                 "copies left out before a restart are still to be let go of after it") {
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

}  // namespace weft::mds
