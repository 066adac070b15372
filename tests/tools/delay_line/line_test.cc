#include "tools/delay_line/line.h"

#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <vector>

namespace weft::delay_line {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kStart{1s};

Frame frame(std::size_t size, int number = 0) {
  Frame made(size);
  made[0] = static_cast<std::byte>(number);
  return made;
}

struct Rig {
  explicit Rig(LineSettings settings, std::uint64_t seed = 1) : random(seed) { line.set(settings); }

  SeededRandom random;
  Line line{random};
};

}  // namespace

TEST_CASE("a frame is under way for the delay", "[delay_line]") {
  Rig rig({.delay = 150ms});
  CHECK_FALSE(rig.line.next());
  rig.line.send(kStart, frame(100, 7));
  CHECK(rig.line.next() == kStart + 150ms);
  CHECK_FALSE(rig.line.take(kStart + 150ms - 1ns));
  CHECK(rig.line.take(kStart + 150ms) == frame(100, 7));
  CHECK_FALSE(rig.line.next());
  CHECK(rig.line.counts().passed == 1);
}

TEST_CASE("a rate sends one frame after the other", "[delay_line]") {
  Rig rig({.delay = 10ms, .rate = 1'000'000, .queue = 2'500});
  rig.line.send(kStart, frame(1000, 1));
  rig.line.send(kStart, frame(1000, 2));
  rig.line.send(kStart, frame(1000, 3));
  CHECK_FALSE(rig.line.take(kStart + 11ms - 1ns));
  CHECK(rig.line.take(kStart + 11ms) == frame(1000, 1));
  CHECK_FALSE(rig.line.take(kStart + 12ms - 1ns));
  CHECK(rig.line.take(kStart + 12ms) == frame(1000, 2));
  CHECK(rig.line.take(kStart + 13ms) == frame(1000, 3));

  SECTION("what finds the queue full is dropped") {
    const TimePoint later = kStart + 1s;
    for (int i = 0; i < 6; ++i) rig.line.send(later, frame(1000, i));
    CHECK(rig.line.counts().full == 3);
    rig.line.send(later + 2ms, frame(1000, 6));
    CHECK(rig.line.counts().full == 3);
  }
  SECTION("an idle link has nothing in store") {
    const TimePoint later = kStart + 10s;
    rig.line.send(later, frame(1000, 1));
    CHECK(rig.line.next() == later + 11ms);
  }
}

TEST_CASE("a share is lost, the same with the same seed", "[delay_line]") {
  constexpr int kFrames = 20'000;
  const auto lost = [](std::uint64_t seed) {
    Rig rig({.lost_per_million = 10'000}, seed);
    for (int i = 0; i < kFrames; ++i) rig.line.send(kStart, frame(60));
    return rig.line.counts().lost;
  };
  CHECK(lost(1) > 150);
  CHECK(lost(1) < 250);
  CHECK(lost(1) == lost(1));
  CHECK(lost(1) != lost(2));
}

TEST_CASE("a link that is cut drops what comes, and delivers what is under way", "[delay_line]") {
  Rig rig({.delay = 100ms});
  rig.line.send(kStart, frame(100, 1));
  rig.line.cut(true);
  rig.line.send(kStart + 1ms, frame(100, 2));
  rig.line.cut(false);
  rig.line.send(kStart + 2ms, frame(100, 3));
  CHECK(rig.line.take(kStart + 1s) == frame(100, 1));
  CHECK(rig.line.take(kStart + 1s) == frame(100, 3));
  CHECK(rig.line.counts().cut == 1);
}

TEST_CASE("what a line holds is bounded", "[delay_line]") {
  Rig rig({.delay = 60s});
  constexpr std::size_t kSize = 1 << 16;
  const auto fits = Line::kMostBytes / kSize;
  for (std::uint64_t i = 0; i < fits + 10; ++i) rig.line.send(kStart, frame(kSize));
  CHECK(rig.line.counts().full == 10);
  CHECK(rig.line.take(kStart + 60s));
  rig.line.send(kStart + 60s, frame(kSize));
  CHECK(rig.line.counts().full == 10);
}

TEST_CASE("order is kept and nothing is early, whatever is set meanwhile", "[delay_line]") {
  rc::check([] {
    Rig rig({});
    TimePoint now = kStart;
    Nanoseconds delay{0};
    std::vector<TimePoint> earliest;
    const int steps = *rc::gen::inRange(1, 200);
    for (int i = 0; i < steps; ++i) {
      now += std::chrono::microseconds(*rc::gen::inRange(0, 3000));
      if (*rc::gen::inRange(0, 5) == 0) {
        delay = std::chrono::milliseconds(*rc::gen::inRange(0, 400));
        rig.line.set({.delay = delay,
                      .rate = *rc::gen::element<std::uint64_t>(0, 10'000, 10'000'000),
                      .queue = 1 << 30});
      }
      rig.line.send(now, frame(100, static_cast<int>(earliest.size()) & 0xff));
      earliest.push_back(now + delay);
    }
    std::size_t taken = 0;
    while (const auto due = rig.line.next()) {
      RC_ASSERT(*due >= earliest[taken]);
      const auto got = rig.line.take(*due);
      RC_ASSERT(got && *got == frame(100, static_cast<int>(taken) & 0xff));
      ++taken;
    }
    RC_ASSERT(taken == earliest.size());
  });
}

}  // namespace weft::delay_line
