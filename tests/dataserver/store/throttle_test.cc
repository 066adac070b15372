#include "dataserver/store/throttle.h"

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <thread>

using weft::ds::Throttle;

namespace {

constexpr std::int64_t kMs = 1'000'000;
std::int64_t waits = 0;

// A write from `at` on that takes so long, and waits for something so often.
std::int64_t write(Throttle& throttle, std::int64_t at, std::int64_t takes, int times_waited) {
  const auto sample = throttle.begin(at);
  waits += times_waited;
  throttle.end(sample, at + takes);
  return at + takes;
}

}  // namespace

TEST_CASE("A thread that is preempted in its writes is not throttled", "[throttle]") {
  Throttle throttle([] { return waits; });
  std::int64_t now = 1;
  for (int i = 0; i < 100; ++i) now = write(throttle, now, 8 * kMs, 0);
  REQUIRE(!throttle.active(now));
}

TEST_CASE("Writes that wait make later ones go by the ring, for a while", "[throttle]") {
  Throttle throttle([] { return waits; });
  std::int64_t now = write(throttle, 1, 8 * kMs, 1);  // a suspicion
  REQUIRE(!throttle.active(now));
  now = write(throttle, now, 1 * kMs, 1);  // it waited, but not for long
  REQUIRE(!throttle.active(now));
  now = write(throttle, now, 8 * kMs, 1);
  REQUIRE(throttle.active(now));
  REQUIRE(throttle.active(now + Throttle::kRingNs - 1));
  REQUIRE(!throttle.active(now + Throttle::kRingNs));
  // The next long one is still watched.
  now = write(throttle, now + Throttle::kRingNs, 8 * kMs, 1);
  REQUIRE(throttle.active(now));
}

TEST_CASE("A suspicion ends", "[throttle]") {
  Throttle throttle([] { return waits; });
  std::int64_t now = write(throttle, 1, 8 * kMs, 1);
  now = write(throttle, now + Throttle::kWatchNs, 8 * kMs, 1);
  REQUIRE(!throttle.active(now));
}

TEST_CASE("Sleeping is waiting, computing is not", "[throttle]") {
  const std::int64_t before = weft::ds::waits_of_this_thread();
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  REQUIRE(weft::ds::waits_of_this_thread() > before);
}
