#include "dataserver/main/changes_under_way.h"

#include <catch2/catch_test_macros.hpp>

#include "tests/dataserver/io_thread.h"

namespace weft::ds {
namespace {

using namespace std::chrono_literals;

constexpr layout::ObjectId kFirst{.fileid = 1, .generation = 1, .fsid = 1};
constexpr layout::ObjectId kSecond{.fileid = 2, .generation = 1, .fsid = 1};

struct Rig {
  test::IoThread thread;
  ManualClock clock;
  ChangesUnderWay changes{{&thread.ring()}, clock};
};

TEST_CASE("a drain waits for the changes before it and not for those after") {
  Rig rig;
  auto before = rig.changes.enter(kFirst, 7);
  bool drained = false;
  rig.changes.drain([&] { drained = true; });
  rig.thread.poll();
  const auto after = rig.changes.enter(kFirst, 8);
  CHECK_FALSE(drained);
  before.reset();
  CHECK(drained);
}

TEST_CASE("a change that takes long is told once, with its object and the run that asked for it") {
  Rig rig;
  auto first = rig.changes.enter(kFirst, 7);
  rig.clock.advance(2s);
  auto second = rig.changes.enter(kSecond, 8);
  CHECK(rig.changes.take_late().empty());
  rig.clock.advance(3s);
  const auto late = rig.changes.take_late();
  REQUIRE(late.size() == 1);
  CHECK(late[0].object == kFirst);
  CHECK(late[0].epoch == 7);
  CHECK(rig.clock.now() - late[0].since == 5s);
  CHECK(rig.changes.take_late().empty());
  SECTION("and the next when its time comes") {
    rig.clock.advance(2s);
    const auto next = rig.changes.take_late();
    REQUIRE(next.size() == 1);
    CHECK(next[0].object == kSecond);
  }
  SECTION("but not one that is over by then") {
    second.reset();
    rig.clock.advance(2s);
    CHECK(rig.changes.take_late().empty());
  }
}

TEST_CASE("whoever waited for a change finds it told no more") {
  Rig rig;
  auto change = rig.changes.enter(kFirst, 7);
  rig.clock.advance(10s);
  bool drained = false;
  rig.changes.drain([&] {
    drained = true;
    CHECK(rig.changes.take_late().empty());
  });
  rig.thread.poll();
  change.reset();
  CHECK(drained);
}

}  // namespace
}  // namespace weft::ds
