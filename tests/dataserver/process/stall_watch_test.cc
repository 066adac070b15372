// When a disk is taken for one that hangs.
#include "dataserver/process/stall_watch.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "dataserver/ring/disk_waits.h"
#include "tests/dataserver/io_thread.h"

namespace weft::ds {
namespace {

using namespace std::chrono_literals;

struct Rig {
  test::IoThread thread;
  ManualClock clock;
  Result<std::uint64_t> moved = 1;
  bool at_disk = true;
  StallWatch watch{{.rings = {&thread.ring()},
                    .clock = clock,
                    .moved = [this] { return moved; },
                    .patience = 10s,
                    .at_disk = [this](pid_t) { return at_disk; }}};

  // What it says after so many seconds of looks, of which the thread answers each.
  std::optional<std::chrono::seconds> after(int seconds) {
    std::optional<std::chrono::seconds> told;
    for (int i = 0; i < seconds; ++i) {
      clock.advance(1s);
      told = watch.look();
      thread.poll();
    }
    return told;
  }
};

// Begun long ago, by the test's clock.
constexpr TimePoint kLongAgo(1ns);

TEST_CASE("a disk of which nothing waits answers, whatever it does") {
  Rig rig;
  CHECK(rig.after(60) == std::nullopt);
}

TEST_CASE("what comes back neither way in all its patience is a disk that hangs") {
  Rig rig;
  {
    const DiskWait operation(kLongAgo);
    CHECK(rig.after(10) == std::nullopt);
    CHECK(rig.after(4) >= 10s);
    CHECK(rig.after(5) >= 15s);
  }
  CHECK(rig.after(2) == std::nullopt);
}

TEST_CASE("a disk that moves is slow, and does not hang") {
  Rig rig;
  const DiskWait operation(kLongAgo);
  for (int i = 0; i < 30; ++i) {
    ++*rig.moved;
    CHECK(rig.after(5) == std::nullopt);
  }
  CHECK(rig.after(14) >= 10s);
}

TEST_CASE("a thread that does not answer may wait for the disk, too") {
  Rig rig;
  rig.at_disk = GENERATE(true, false);  // false: it is busy, or a debugger's
  CHECK(rig.after(3) == std::nullopt);
  std::optional<std::chrono::seconds> told;
  for (int i = 0; i < 14; ++i) {
    rig.clock.advance(1s);
    told = rig.watch.look();
  }
  CHECK((told >= 10s) == rig.at_disk);
  CHECK(rig.after(2) == std::nullopt);
}

TEST_CASE("without a count of what a disk does it has six times as long") {
  Rig rig;
  rig.moved = fail(Errc::kNotFound);
  const DiskWait operation(kLongAgo);
  CHECK(rig.after(58) == std::nullopt);
  CHECK(rig.after(6) >= 60s);
}

TEST_CASE("a process that was stopped has not waited all the while") {
  Rig rig;
  const DiskWait operation(kLongAgo);
  CHECK(rig.after(5) == std::nullopt);
  rig.clock.advance(1h);
  CHECK(rig.after(3) == std::nullopt);
}

TEST_CASE("one operation after the other that takes its time is no disk that hangs") {
  Rig rig;
  for (int i = 0; i < 10; ++i) {
    const DiskWait operation(rig.clock.now());
    CHECK(rig.after(8) == std::nullopt);
  }
}

}  // namespace
}  // namespace weft::ds
