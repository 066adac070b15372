#include "ganesha-fsal/cluster/refusals.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

namespace weft::mds {
namespace {

using namespace std::chrono_literals;

const layout::NetAddress kFrom = layout::make_address("192.0.2.7", 40001).value();
const layout::NetAddress kAgain = layout::make_address("192.0.2.7", 40002).value();
const layout::NetAddress kOther = layout::make_address("192.0.2.8", 40001).value();

struct Rig {
  Refusals::Clock::time_point now{1h};
  Refusals refusals{[this] { return now; }};
};

TEST_CASE("each change of the reason is news, and the same one again after a while") {
  Rig rig;
  CHECK(rig.refusals.add(kFrom, "a", "first"));
  CHECK_FALSE(rig.refusals.add(kAgain, "a", "first"));
  CHECK(rig.refusals.add(kFrom, "a", "second"));
  CHECK(rig.refusals.add(kFrom, "a", "first"));
  CHECK(rig.refusals.add(kFrom, "b", "first"));
  CHECK(rig.refusals.add(kOther, "a", "first"));
  rig.now += Refusals::kRecent + 1s;
  CHECK(rig.refusals.add(kFrom, "a", "first"));
}

TEST_CASE("those of the last minutes are told, the last first") {
  Rig rig;
  CHECK(rig.refusals.add(kFrom, "a", "old"));
  rig.now += 2min;
  CHECK(rig.refusals.add(kOther, "", "no key"));
  rig.now += 1s;
  CHECK_FALSE(rig.refusals.add(kOther, "", "no key"));
  const auto recent = rig.refusals.recent();
  REQUIRE(recent.size() == 2);
  CHECK(recent[0].address == "192.0.2.8");
  CHECK(recent[0].why == "no key");
  CHECK(recent[0].times == 2);
  CHECK(recent[1].name == "a");
  rig.now += 4min;
  CHECK(rig.refusals.recent().size() == 1);
}

TEST_CASE("who was let in is refused no more") {
  Rig rig;
  CHECK(rig.refusals.add(kFrom, "", "no key"));
  CHECK(rig.refusals.add(kFrom, "a", "why"));
  CHECK(rig.refusals.add(kFrom, "b", "why"));
  rig.refusals.forget(kAgain, "a");
  const auto recent = rig.refusals.recent();
  REQUIRE(recent.size() == 1);
  CHECK(recent[0].name == "b");
}

TEST_CASE("no more are remembered than there is room for") {
  Rig rig;
  for (std::size_t i = 0; i < 2 * Refusals::kMost; ++i) {
    rig.now += 1ms;
    CHECK(rig.refusals.add(kFrom, std::to_string(i), "why"));
  }
  const auto recent = rig.refusals.recent();
  CHECK(recent.size() == Refusals::kMost);
  CHECK(recent.front().name == std::to_string(2 * Refusals::kMost - 1));
}

}  // namespace
}  // namespace weft::mds
