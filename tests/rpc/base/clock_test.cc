#include <array>
#include <catch2/catch_test_macros.hpp>

#include "rpc/base/process_clock.h"
#include "rpc/base/running_clock.h"

using namespace weft;
using namespace std::chrono_literals;

TEST_CASE("the same seed gives the same bytes, another seed others") {
  SeededRandom a(7);
  SeededRandom b(7);
  SeededRandom c(8);
  std::array<std::byte, 33> first{};
  std::array<std::byte, 33> second{};
  a.fill(first);
  b.fill(second);
  CHECK(first == second);
  c.fill(second);
  CHECK(first != second);
}

TEST_CASE("below() stays below, and reaches every value") {
  SeededRandom random(1);
  std::array<int, 7> seen{};
  for (int i = 0; i < 1000; ++i) ++seen.at(random.below(7));
  for (const int times : seen) CHECK(times > 80);
  CHECK(random.below(1) == 0);
}

TEST_CASE("a manual clock moves when told") {
  ManualClock clock;
  const auto before = clock.now();
  CHECK(clock.now() == before);
  clock.advance(std::chrono::seconds(3));
  CHECK(clock.now() - before == std::chrono::seconds(3));
}

TEST_CASE("the system's randomness differs from call to call") {
  CHECK(system_random().u64() != system_random().u64());
}

TEST_CASE("time in which a thread did not run does not pass") {
  ManualClock machine;
  RunningClock clock(100ms, machine);
  const TimePoint begin = clock.tick();
  for (int i = 0; i < 20; ++i) {
    machine.advance(100ms);
    clock.tick();
  }
  CHECK(clock.now() - begin == 2s);
  machine.advance(900ms);  // a busy machine
  CHECK(clock.tick() - begin == 2900ms);
  machine.advance(1h);
  CHECK(clock.tick() - begin == 3s);
  machine.advance(100ms);
  CHECK(clock.now() - begin == 3100ms);
  machine.advance(5s);
  machine.advance(100ms);
  CHECK(clock.tick() - begin == 3100ms);
}

TEST_CASE("time in which what others owe us waits here does not pass") {
  ManualClock machine;
  RunningClock clock(100ms, machine);
  const TimePoint begin = clock.tick();
  for (int i = 0; i < 20; ++i) {
    machine.advance(100ms);
    CHECK(clock.tick(true) == begin);
  }
  machine.advance(1h);  // nor did the thread run
  CHECK(clock.tick(true) == begin);
  machine.advance(100ms);
  CHECK(clock.tick() - begin == 100ms);
}

TEST_CASE("a timer that ends late says that its thread did not run") {
  ManualClock machine;
  RunningClock clock({}, machine);
  const TimePoint begin = clock.now();
  machine.advance(500ms);
  CHECK_FALSE(clock.woken(begin + 100ms));  // a busy machine
  CHECK(clock.now() - begin == 500ms);
  machine.advance(1h);
  CHECK(clock.woken(begin + 600ms));
  CHECK(clock.now() - begin == 600ms);
  CHECK_FALSE(clock.woken(begin + 600ms));  // another timer
  CHECK(clock.at(machine.now()) == clock.now());
  machine.advance(2s);
  CHECK(clock.woken(begin + 700ms));
  CHECK(clock.now() - begin == 700ms);
}

TEST_CASE("time in which a process did not run does not pass, for whichever thread asks first") {
  ManualClock machine;
  const ProcessClock clock(machine);
  machine.advance(1h);  // before anybody asks
  const TimePoint begin = clock.now();
  CHECK(begin == machine.now());
  for (int i = 0; i < 20; ++i) {
    machine.advance(250ms);
    CHECK(clock.now() - begin == (i + 1) * 250ms);
  }
  machine.advance(3s);  // a busy machine
  CHECK(clock.now() - begin == 6s);
  machine.advance(250ms);
  CHECK(clock.now() - begin == 6250ms);
  machine.advance(1h);
  CHECK(clock.now() - begin == 6250ms);
  for (int i = 0; i < 19; ++i) {  // what has come is read
    machine.advance(250ms);
    CHECK(clock.now() - begin == 6250ms);
  }
  machine.advance(250ms);
  CHECK(clock.now() - begin == 6500ms);
  CHECK(clock.now() - begin == 6500ms);
  machine.advance(250ms);
  CHECK(clock.now() - begin == 6750ms);
  CHECK(clock.wall_ns() == machine.wall_ns());
}
