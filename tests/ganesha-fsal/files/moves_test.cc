// Leaders, and what is missed, while a data server takes another's place in the map.
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <functional>
#include <set>

#include "ganesha-fsal/files/mirrors.h"
#include "layout/relocation.h"
#include "tests/ganesha-fsal/meta/meta_fixture.h"
#include "tests/ganesha-fsal/server/server_fixture.h"

namespace weft::mds {
namespace {

using layout::Access;
using layout::CopyState;
using Leads = std::vector<std::uint8_t>;

// A run without data servers that anybody connects to: all are said to be here.
struct MovesTest : NamespaceTest {
  MovesTest() : f(file(kRootFileId, "f")) {}

  Namespace::MakeLayout make(std::vector<std::vector<std::uint32_t>> copies) {
    return [copies](const InodeAttributes&) -> Result<layout::LayoutMap> {
      layout::LayoutMap made;
      made.stripe_unit = 1 << 20;
      for (const auto& ids : copies) made.copies.push_back({CopyState::kCurrent, 0, ids, {}});
      made.duplication =
          copies.size() > 1 ? layout::Duplication::kServerSync : layout::Duplication::kNone;
      return made;
    };
  }
  void grant_write(ClientId client, const Namespace::MakeLayout& made) {
    const auto target = mirrors.begin_write(f, made);
    REQUIRE(target);
    REQUIRE(layouts.grant(f, client, Access::kReadWrite));
  }
  // As the Repairer does.
  void fill(std::uint32_t ds_id) {
    const auto pinned = mirrors.begin_write(f, make({}));
    REQUIRE(pinned);
    const auto seat = layout::seat_of(pinned->map, ds_id);
    auto begun = names->begin_resync(
        {.id = f, .copy = static_cast<std::uint32_t>(seat->copy), .ds_id = ds_id});
    REQUIRE(begun);
    REQUIRE(*begun);
    REQUIRE(names->clear_stale((*begun)->object).value());
  }
  Result<> missed(std::uint32_t reporter, std::uint32_t ds_id) {
    const auto map = names->layout(f);
    return mirrors.copy_missed(reporter, {.object = names->object_of(f, **map),
                                          .ds_id = ds_id,
                                          .object_epoch = 1,
                                          .extents = {{0, 4 << 20}}});
  }

  struct NoFencer : Fencer {
    void fence(FileId, ClientId, std::function<void(Result<>)> done) override { done({}); }
  };
  const FileId f;
  std::map<std::uint32_t, Reach> reach;
  std::set<std::uint32_t> busy;
  // Once, when it is looked who is here, and when the loads are looked at.
  std::function<void()> looking;
  std::function<void()> choosing;
  FileTable files{system_clock()};
  NoRecaller recaller;
  NoFencer fencer;
  LayoutService layouts{files, recaller, fencer, {}, [] { return Clock::now(); }, [](FileId) {}};
  WriterJournal journal{{.files = files, .names = *names}};
  Mirrors mirrors{{.files = files,
                   .names = *names,
                   .journal = journal,
                   .layouts = layouts,
                   .reach =
                       [this](std::uint32_t id) {
                         if (looking) std::exchange(looking, nullptr)();
                         return reach[id];
                       },
                   .servers = [] { return std::vector<std::uint32_t>{1, 2, 3, 4, 5, 6, 7, 8, 9}; },
                   .candidates =
                       [this](std::span<const std::uint32_t> ids) {
                         if (choosing) std::exchange(choosing, nullptr)();
                         std::vector<layout::Candidate> all;
                         for (const std::uint32_t id : ids) {
                           all.push_back({.ds_id = id});
                           if (!busy.contains(id)) continue;
                           all.back().load.cpu_percent = {100};
                           all.back().load.run_queue_milli = 9000;
                         }
                         return all;
                       },
                   .fence = [](std::span<const std::uint32_t>, const control::Fence&,
                               Done<void> done) { done({}); },
                   .grants_known = [] { return true; },
                   .patience = 100ms,
                   .retry = 0ms}};
};

}  // namespace

TEST_CASE_METHOD(MovesTest, "who leads goes on leading under another number") {
  const auto made = make({{1, 2}, {3, 4}});
  grant_write(5, made);
  CHECK(mirrors.look(f)->leads == Leads{0, 0});
  REQUIRE(names->begin_move(f, 2, 9));
  fill(9);
  REQUIRE(mirrors.exclude(f, 2, Mirrors::Cause::kMoved));
  // 4, of copy 1, or 9, of the further copy 2, leads the stripe.
  reach[4] = Reach::kGone;
  REQUIRE(mirrors.exclude(f, 4, Mirrors::Cause::kGone));
  REQUIRE(mirrors.look(f));
  CHECK(mirrors.look(f)->leads == Leads{0, 2});
  REQUIRE(mirrors.finish_move(f));
  const auto view = mirrors.look(f);
  REQUIRE(view);
  CHECK(view->leads == Leads{0, 0});
  CHECK(view->map.copies[0].ds_ids == std::vector<std::uint32_t>{1, 9});
  // Others that write get the same.
  CHECK(mirrors.begin_write(f, made)->leads == Leads{0, 0});
}

TEST_CASE_METHOD(MovesTest, "a file with one copy is led while it is moved, and not after") {
  const auto made = make({{1}});
  grant_write(5, made);  // before: nobody led
  REQUIRE(names->begin_move(f, 1, 9));
  fill(9);
  {
    const auto view = mirrors.look(f);
    REQUIRE(view);
    CHECK(view->leads == Leads{0});
    const auto handle = layout::leading_handle(view->map, 0, 0);
    CHECK(handle->partners[0] == 9);
    CHECK(handle->duplication == layout::Duplication::kServerSync);
  }
  REQUIRE(mirrors.exclude(f, 1, Mirrors::Cause::kMoved));
  CHECK(mirrors.look(f)->leads == Leads{1});
  REQUIRE(mirrors.finish_move(f));
  const auto view = mirrors.look(f);
  REQUIRE(view);
  CHECK(view->leads == Leads{0});
  CHECK(view->map.copies[0].ds_ids == std::vector<std::uint32_t>{9});
  CHECK(layout::leading_handle(view->map, 0, 0)->partners[0] == 0);
}

TEST_CASE_METHOD(MovesTest, "one that has left misses nothing, and reports nothing") {
  grant_write(5, make({{1}, {3}}));
  REQUIRE(names->begin_move(f, 3, 9));
  fill(9);
  REQUIRE(mirrors.exclude(f, 3, Mirrors::Cause::kMoved));
  REQUIRE(mirrors.finish_move(f));
  CHECK(missed(1, 3));
  CHECK((*names->layout(f))->copies[1].state == CopyState::kCurrent);
  CHECK(names->stale_objects(3, std::nullopt, 10)->empty());
  CHECK(missed(3, 1).error() == Errc::kFenced);
  CHECK(missed(3, 3).error() == Errc::kFenced);
}

TEST_CASE_METHOD(MovesTest, "one that has come to another stripe misses nothing of the first") {
  grant_write(5, make({{1, 2}, {3, 4}}));
  for (const auto& [from, to] : {std::pair(3U, 9U), std::pair(4U, 3U)}) {
    REQUIRE(names->begin_move(f, from, to));
    fill(to);
    REQUIRE(mirrors.exclude(f, from, Mirrors::Cause::kMoved));
    REQUIRE(mirrors.finish_move(f));
    REQUIRE(names->end_moves({&f, 1}));
    REQUIRE(names->finish_removals(std::array{names->object_of(f, **names->layout(f))},
                                   std::array{from}));
  }
  CHECK((*names->layout(f))->copies[1].ds_ids == std::vector<std::uint32_t>{9, 3});
  CHECK(missed(1, 3));
  CHECK((*names->layout(f))->copies[1].state == CopyState::kCurrent);
}

TEST_CASE_METHOD(MovesTest, "a move that ends while its source is left out is nobody's error") {
  grant_write(5, make({{1}, {3}}));
  REQUIRE(names->begin_move(f, 3, 9));
  fill(9);
  // Somebody else leaves it out, and the move ends, between the look at the map and the mark.
  looking = [this] {
    REQUIRE(mirrors.exclude(f, 3, Mirrors::Cause::kMoved));
    REQUIRE(mirrors.finish_move(f));
  };
  CHECK(mirrors.exclude(f, 3, Mirrors::Cause::kNoAnswer));
  CHECK_FALSE(looking);
  const auto map = **names->layout(f);
  CHECK(map.copies[1].ds_ids == std::vector<std::uint32_t>{9});
  CHECK(map.copies[1].state == CopyState::kCurrent);
}

TEST_CASE_METHOD(MovesTest, "a move that is given up while its newcomer is left out is over") {
  const bool only = GENERATE(true, false);
  const auto made = only ? make({{1}}) : make({{1}, {3}});
  REQUIRE(mirrors.begin_write(f, made));
  REQUIRE(names->begin_move(f, 1, 9));
  fill(9);
  mirrors.tick();  // nobody writes: leaders are chosen anew
  busy = {1, 3};
  grant_write(5, made);
  const std::uint8_t newcomer = only ? 1 : 2;
  REQUIRE(mirrors.look(f)->leads == Leads{newcomer});
  // Another is to lead: by then there is no such copy any more.
  choosing = [this] { REQUIRE(names->cancel_move(f)); };
  CHECK(mirrors.exclude(f, 9, Mirrors::Cause::kNoAnswer));
  CHECK_FALSE(choosing);
  CHECK((*names->layout(f))->copies.size() == newcomer);
}

TEST_CASE_METHOD(MovesTest, "a grant that began before the file had a second copy asks again") {
  const auto target = mirrors.begin_write(f, make({{1}}));
  REQUIRE(target);
  REQUIRE(layouts.grant(f, 5, Access::kReadWrite));
  REQUIRE(names->begin_move(f, 1, 9));
  const auto view = mirrors.look(f);
  REQUIRE(view);
  CHECK(mirrors.servers_for(f, *view, Access::kReadWrite, 58).error() == Errc::kBusy);
}

}  // namespace weft::mds
