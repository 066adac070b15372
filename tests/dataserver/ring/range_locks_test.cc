#include "dataserver/ring/range_locks.h"

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <map>

#include "rpc/base/clock.h"
#include "tests/dataserver/io_thread.h"

namespace weft::ds {
namespace {

constexpr layout::ObjectId kObject{.fileid = 1, .generation = 1, .fsid = 1};

struct Rig {
  void acquire(int id, ByteRange range) {
    locks.acquire(kObject, range, [this, id](RangeLocks::Hold hold) {
      holds[id] = std::move(hold);
      order.push_back(id);
    });
  }
  bool held(int id) {
    thread.poll();
    return holds.contains(id);
  }
  test::IoThread thread;
  RangeLocks locks;
  std::map<int, RangeLocks::Hold> holds;
  std::vector<int> order;
};

TEST_CASE("what overlaps waits its turn, what does not goes on") {
  Rig rig;
  rig.acquire(1, {0, 10});
  rig.acquire(2, {5, 15});
  rig.acquire(3, {10, 20});  // not with 1, but behind 2
  rig.acquire(4, {30, 40});
  CHECK(rig.held(1));
  CHECK_FALSE(rig.held(2));
  CHECK_FALSE(rig.held(3));
  CHECK(rig.held(4));
  rig.holds.erase(1);
  CHECK(rig.held(2));
  CHECK_FALSE(rig.held(3));
  rig.holds.erase(2);
  CHECK(rig.held(3));
  rig.holds.clear();
  CHECK(rig.locks.size() == 0);
}

TEST_CASE("who follows does not wait for one who leads, and for others he does") {
  Rig rig;
  const auto follow = [&](int id, ByteRange range) {
    rig.locks.acquire(
        kObject, range, [&rig, id](RangeLocks::Hold hold) { rig.holds[id] = std::move(hold); },
        RangeLocks::As::kFollows);
  };
  rig.locks.acquire(
      kObject, {0, 10}, [&](RangeLocks::Hold hold) { rig.holds[1] = std::move(hold); },
      RangeLocks::As::kLeads);
  follow(2, {5, 15});
  REQUIRE(rig.held(2));
  CHECK_FALSE(rig.holds[2]);
  rig.acquire(3, {20, 30});
  follow(4, {15, 25});
  CHECK_FALSE(rig.held(4));
  rig.holds.erase(3);
  REQUIRE(rig.held(4));
  CHECK(rig.holds[4]);
  rig.holds.clear();
  CHECK(rig.locks.size() == 0);
}

TEST_CASE("other objects are not waited for") {
  Rig rig;
  rig.acquire(1, {0, 10});
  bool granted = false;
  rig.locks.acquire({2, 1, 1}, {0, 10}, [&](RangeLocks::Hold) { granted = true; });
  CHECK(granted);
}

TEST_CASE("a reader for another server waits for bytes to be here, not for the whole hold") {
  Rig rig;
  rig.acquire(1, {0, 10});
  rig.acquire(2, {0, 10});
  bool read = false;
  bool elsewhere = false;
  rig.locks.when_local(kObject, {5, 6}, [&] { read = true; });
  rig.locks.when_local(kObject, {50, 60}, [&] { elsewhere = true; });
  rig.thread.poll();
  CHECK_FALSE(read);
  CHECK(elsewhere);
  rig.holds.at(1).local_done();
  rig.thread.poll();
  CHECK(read);  // 2 has not begun, so it has sent nothing
  rig.holds.at(1).release();
  CHECK(rig.held(2));
}

TEST_CASE("at no time do two that overlap hold, and all get their turn in order") {
  SeededRandom random(5);
  Rig rig;
  std::map<int, ByteRange> ranges;
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t begin = random.below(100);
    ranges[i] = {begin, begin + 1 + random.below(20)};
    rig.acquire(i, ranges[i]);
    while (rig.holds.size() > 3 || (i % 7 == 0 && !rig.holds.empty())) {
      auto victim = rig.holds.begin();
      std::advance(victim, static_cast<long>(random.below(rig.holds.size())));
      rig.holds.erase(victim);
      rig.thread.poll();
      for (auto a = rig.holds.begin(); a != rig.holds.end(); ++a) {
        for (auto b = std::next(a); b != rig.holds.end(); ++b) {
          REQUIRE_FALSE(ranges[a->first].overlaps(ranges[b->first]));
        }
      }
    }
  }
  while (!rig.holds.empty()) {
    rig.holds.clear();
    rig.thread.poll();
  }
  REQUIRE(rig.order.size() == 2000);
  for (std::size_t i = 0; i < rig.order.size(); ++i) {
    for (std::size_t j = i + 1; j < rig.order.size() && j < i + 200; ++j) {
      if (rig.order[j] < rig.order[i]) {
        REQUIRE_FALSE(ranges[rig.order[i]].overlaps(ranges[rig.order[j]]));
      }
    }
  }
}

// As many as a thousand clients have under way in one file, and one that waits for them all.
TEST_CASE("the holds of one object do not look at each other") {
  constexpr int kMany = 60'000;
  Rig rig;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kMany; ++i) {
    const auto at = static_cast<std::uint64_t>(i) << 20;
    rig.acquire(i, {at, at + (std::uint64_t{1} << 20)});
  }
  CHECK(rig.holds.size() == kMany);
  rig.acquire(kMany, {0, ~std::uint64_t{0}});
  rig.acquire(kMany + 1, {5, 6});
  for (int i = kMany - 1; i >= 0; --i) rig.holds.erase(i);
  CHECK(rig.held(kMany));
  CHECK_FALSE(rig.held(kMany + 1));
  rig.holds.erase(kMany);
  CHECK(rig.held(kMany + 1));
  // Half a minute if each looked at all.
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
}

TEST_CASE("ranges of all lengths get their turn in order") {
  SeededRandom random(7);
  Rig rig;
  std::map<int, ByteRange> ranges;
  const std::uint64_t lengths[] = {1, 4096, 1 << 20, 3 << 20, 40 << 20};
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t begin = random.below(100 << 20);
    ranges[i] = {begin, begin + random.below(lengths[random.below(5)] + 1)};
    rig.acquire(i, ranges[i]);
    while (rig.holds.size() > 6) {
      auto victim = rig.holds.begin();
      std::advance(victim, static_cast<long>(random.below(rig.holds.size())));
      rig.holds.erase(victim);
      rig.thread.poll();
      for (auto a = rig.holds.begin(); a != rig.holds.end(); ++a) {
        for (auto b = std::next(a); b != rig.holds.end(); ++b) {
          REQUIRE_FALSE(ranges[a->first].overlaps(ranges[b->first]));
        }
      }
    }
  }
  while (!rig.holds.empty()) {
    rig.holds.clear();
    rig.thread.poll();
  }
  REQUIRE(rig.order.size() == 2000);
  std::vector<std::size_t> turn(2000);
  for (std::size_t i = 0; i < rig.order.size(); ++i)
    turn[static_cast<std::size_t>(rig.order[i])] = i;
  for (int i = 0; i < 2000; ++i) {
    for (int j = i + 1; j < 2000; ++j) {
      if (!ranges[i].overlaps(ranges[j])) continue;
      REQUIRE(turn[static_cast<std::size_t>(i)] < turn[static_cast<std::size_t>(j)]);
    }
  }
  CHECK(rig.locks.size() == 0);
}

}  // namespace
}  // namespace weft::ds
