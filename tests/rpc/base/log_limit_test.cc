#include "rpc/base/log_limit.h"

#include <catch2/catch_test_macros.hpp>

#include "tests/rpc/log_lines.h"

namespace weft {
namespace {

using std::chrono::hours;

struct Rig {
  void say(std::uint64_t lines) {
    for (std::uint64_t i = 0; i < lines; ++i) limit.info("event=said by={}", "peer");
  }
  ManualClock clock;
  LogLimit limit{clock};
  rpc::test::LogLines log;
};

TEST_CASE("so many lines are written at once, and the next says how many were left out") {
  Rig rig;
  rig.say(LogLimit::kAtOnce + 40);
  const auto lines = rig.log.take();
  REQUIRE(lines.size() == LogLimit::kAtOnce);
  CHECK(lines.front() == "info event=said by=peer");
  CHECK(lines.back() == "info event=said by=peer");
  rig.clock.advance(LogLimit::kForOne - std::chrono::milliseconds(1));
  rig.say(1);
  CHECK(rig.log.take().empty());
  rig.clock.advance(std::chrono::milliseconds(1));
  rig.say(2);
  CHECK(rig.log.take() == std::vector<std::string>{"info event=said by=peer left_out=41"});
}

TEST_CASE("a peer that goes on is written of at a steady rate") {
  Rig rig;
  rig.say(LogLimit::kAtOnce);
  static_cast<void>(rig.log.take());
  for (int second = 0; second < 60; ++second) {
    rig.say(1000);
    rig.clock.advance(std::chrono::seconds(1));
  }
  CHECK(rig.log.take().size() == 59 * 5);
}

TEST_CASE("after a quiet while there are as many as at first, and no more") {
  Rig rig;
  rig.say(2 * LogLimit::kAtOnce);
  rig.clock.advance(hours(24));
  static_cast<void>(rig.log.take());
  rig.say(2 * LogLimit::kAtOnce);
  CHECK(rig.log.take().size() == LogLimit::kAtOnce);
}

TEST_CASE("what is left out is there for who looks at all") {
  ManualClock clock;
  LogLimit limit(clock);
  rpc::test::LogLines log(spdlog::level::debug);
  for (std::uint64_t i = 0; i <= LogLimit::kAtOnce; ++i) limit.warn("event=said number={}", i);
  const auto lines = log.take();
  REQUIRE(lines.size() == LogLimit::kAtOnce + 1);
  CHECK(lines[LogLimit::kAtOnce - 1] == "warning event=said number=99");
  CHECK(lines[LogLimit::kAtOnce] == "debug event=said number=100");
}

}  // namespace
}  // namespace weft
