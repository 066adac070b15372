#include "layout/performance.h"

#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <list>
#include <random>
#include <unordered_map>

using namespace weft;
using namespace weft::layout;
using Catch::Approx;

namespace {

constexpr double kKiB = 1024;
constexpr double kSmall = 64 * kKiB;
constexpr double kLarge = 640 * kKiB;
constexpr Tiers kFlat{18, 0};
constexpr Tiers k6x2{6, 2};
constexpr Tiers k3x5{3, 5};
constexpr Tiers k2x8{2, 8};

Workload reads(double request, double hits) {
  return {.request = request, .io_hits = hits, .target_hits = hits};
}

struct Expected {
  double rate;
  char bound;  // d: disks, n: network of the I/O nodes
};

void check(const Tiers& tiers, const Workload& work, const Expected& expected) {
  CAPTURE(tiers.io_nodes, tiers.targets, work.request, work.io_hits);
  const auto got = saturation(tiers, work, {});
  REQUIRE(got);
  CHECK(std::abs(got->saturation - expected.rate) <= 1);
  CHECK(got->bound_by == (expected.bound == 'd' ? Resource::kDisk : Resource::kIoNetwork));
}

double best_two_tiers(const Workload& work) {
  double best = 0;
  for (const Tiers& tiers : {k6x2, k3x5, k2x8}) {
    best = std::max(best, saturation(tiers, work, {})->saturation);
  }
  return best;
}

}  // namespace

TEST_CASE("saturation of 18 nodes, as tabled for iPVFS") {
  struct Row {
    double request;
    double hits;
    Expected flat, six, three, two;
  };
  const Row rows[] = {
      {kSmall, 0, {2562, 'd'}, {1708, 'd'}, {2135, 'd'}, {2277, 'd'}},
      {kSmall, .2, {3203, 'd'}, {2669, 'd'}, {3336, 'd'}, {2400, 'n'}},
      {kSmall, .5, {5124, 'd'}, {6832, 'd'}, {3600, 'n'}, {2400, 'n'}},
      {kSmall, .6, {6405, 'd'}, {7200, 'n'}, {3600, 'n'}, {2400, 'n'}},
      {kSmall, .8, {12810, 'd'}, {7200, 'n'}, {3600, 'n'}, {2400, 'n'}},
      {kLarge, 0, {256, 'd'}, {147, 'd'}, {183, 'd'}, {228, 'd'}},
      {kLarge, .5, {512, 'd'}, {586, 'd'}, {360, 'n'}, {240, 'n'}},
      {kLarge, .6, {641, 'd'}, {720, 'n'}, {360, 'n'}, {240, 'n'}},
      {kLarge, .8, {1281, 'd'}, {720, 'n'}, {360, 'n'}, {240, 'n'}},
  };
  for (const Row& row : rows) {
    const Workload work = reads(row.request, row.hits);
    check(kFlat, work, row.flat);
    check(k6x2, work, row.six);
    check(k3x5, work, row.three);
    check(k2x8, work, row.two);
  }
}

TEST_CASE("saturation of six nodes, as can be measured on one machine") {
  const Tiers six{6, 0};
  const Tiers tiers[] = {{3, 1}, {2, 2}, {1, 5}};
  const auto check_row = [&](const Workload& work, Expected flat, Expected a, Expected b,
                             Expected c) {
    check(six, work, flat);
    check(tiers[0], work, a);
    check(tiers[1], work, b);
    check(tiers[2], work, c);
  };
  check_row(reads(kSmall, .5), {1708, 'd'}, {1708, 'd'}, {2277, 'd'}, {1200, 'n'});
  check_row(reads(kSmall, .6), {2135, 'd'}, {2669, 'd'}, {2400, 'n'}, {1200, 'n'});
  check_row(reads(kSmall, .8), {4270, 'd'}, {3600, 'n'}, {2400, 'n'}, {1200, 'n'});
  check_row(reads(kLarge, .5), {255, 'd'}, {360, 'n'}, {240, 'n'}, {120, 'n'});
  check_row(reads(kLarge, .8), {638, 'd'}, {360, 'n'}, {240, 'n'}, {120, 'n'});
}

TEST_CASE("two tiers pay in a window of hit rates only") {
  const auto gain = [](double request, double hits) {
    const Workload work = reads(request, hits);
    return best_two_tiers(work) / saturation(kFlat, work, {})->saturation;
  };
  CHECK(gain(kSmall, .333) < 1);
  CHECK(gain(kSmall, .335) > 1);
  CHECK(gain(kSmall, .644) > 1);
  CHECK(gain(kSmall, .646) < 1);
  CHECK(gain(kLarge, .427) < 1);
  CHECK(gain(kLarge, .429) > 1);
  CHECK(gain(kLarge, .644) > 1);
  CHECK(gain(kLarge, .646) < 1);
  double best_small = 0;
  double best_large = 0;
  for (int i = 0; i < 1000; ++i) {
    best_small = std::max(best_small, gain(kSmall, i / 1000.0));
    best_large = std::max(best_large, gain(kLarge, i / 1000.0));
  }
  CHECK(best_small == Approx(1.37).epsilon(.005));
  CHECK(best_large == Approx(1.27).epsilon(.005));
}

TEST_CASE("more I/O nodes are better from .4 up, and worse without hits") {
  for (const double request : {kSmall, kLarge}) {
    for (int i = 40; i <= 95; ++i) {
      const Workload work = reads(request, i / 100.0);
      CAPTURE(request, i);
      CHECK(saturation(k6x2, work, {})->saturation > saturation(k3x5, work, {})->saturation);
      CHECK(saturation(k3x5, work, {})->saturation > saturation(k2x8, work, {})->saturation);
    }
    const Workload cold = reads(request, 0);
    CHECK(saturation(k6x2, cold, {})->saturation < saturation(k3x5, cold, {})->saturation);
    CHECK(saturation(k3x5, cold, {})->saturation < saturation(k2x8, cold, {})->saturation);
  }
}

TEST_CASE("a tier is as fast as its slowest node") {
  const Workload work = reads(kSmall, .5);
  const NodeModel node;
  const auto rate = [&](const Tiers& tiers, const NodeModels& nodes) {
    return saturation(tiers, work, nodes)->saturation;
  };
  CHECK(rate(kFlat, node.slower(2)) == Approx(rate(kFlat, node) / 2).epsilon(.02));
  // Disks bind 6x2 at .5, and the I/O nodes' links 3x5: slow targets cost the first one only.
  CHECK(rate(k6x2, {node, node.slower(1.5)}) < rate(k6x2, node) / 1.4);
  CHECK(rate(k3x5, {node, node.slower(1.5)}) == rate(k3x5, node));
  CHECK(rate(k3x5, {node.slower(1.5), node}) == Approx(rate(k3x5, node) / 1.5));
  CHECK_FALSE(saturation(k3x5, work, {node, node.slower(0)}));
}

TEST_CASE("response of 6x2 against one tier") {
  const Workload work = reads(kSmall, .5);
  const auto ms = [&](const Tiers& tiers, double rate) {
    return std::round(response(tiers, work, {}, rate).value() * 1e5) / 100;
  };
  CHECK(ms(k6x2, 100) == Approx(3.22));
  CHECK(ms(kFlat, 100) == Approx(4.51));
  CHECK(ms(k6x2, 3000) == Approx(4.58));
  CHECK(ms(kFlat, 3000) == Approx(7.25));
  CHECK(ms(k6x2, 4500) == Approx(6.48));
  CHECK(ms(kFlat, 4500) == Approx(18.18));
  CHECK_FALSE(response(kFlat, work, {}, 5200));
  CHECK_FALSE(response(kFlat, work, {}, -1));
}

TEST_CASE("the disk's moments") {
  const Moments moments = disk_moments({}, kSmall);
  CHECK(moments.mean * 1e3 == Approx(7.025).epsilon(1e-4));
  CHECK(moments.square * 1e6 == Approx(52.6).epsilon(1e-3));
  const auto square = [](SeekCurve curve) { return disk_moments({}, kSmall, curve).square * 1e6; };
  CHECK(square(SeekCurve::kConstant) == Approx(50.7).epsilon(1e-3));
  CHECK(square(SeekCurve::kLinear) == Approx(56.1).epsilon(1e-3));
  NodeModel still;
  still.seek = 0;  // no way to go, no variance of it
  for (const SeekCurve curve : {SeekCurve::kConstant, SeekCurve::kRoot, SeekCurve::kLinear}) {
    const Moments of_still = disk_moments(still, kSmall, curve);
    const double turn = 2 * still.rotation;
    CHECK(of_still.square == Approx(of_still.mean * of_still.mean + turn * turn / 12));
  }
}

TEST_CASE("writes are charged for copies and parity") {
  Workload work = reads(kSmall, .5);
  work.writes = 1;
  const double disk = disk_moments({}, kSmall).mean;
  CHECK(saturation(kFlat, work, {})->saturation == Approx(18 / disk));
  work.copies = 2;
  CHECK(saturation(kFlat, work, {})->saturation == Approx(9 / disk));
  work.copies = 1;
  CHECK(saturation(k6x2, work, {})->saturation == Approx(6 / disk));       // two: a mirror
  CHECK(saturation(k3x5, work, {})->saturation == Approx(15 / disk / 4));  // part of a stripe
  work.request = 3 * 4 * kSmall;  // a whole stripe at each of three I/O nodes
  const double unit_and_part = disk_moments({}, 4 * kSmall / 4).mean;
  CHECK(saturation(k3x5, work, {})->saturation == Approx(1 / (0.8 * 5 / 4 * unit_and_part)));
}

TEST_CASE("arrangements use all nodes") {
  CHECK(arrangements(18) == std::vector<Tiers>{{18, 0}, {9, 1}, {6, 2}, {3, 5}, {2, 8}, {1, 17}});
  CHECK(arrangements(1) == std::vector<Tiers>{{1, 0}});
  for (const Tiers& tiers : arrangements(24)) CHECK(tiers.nodes() == 24);
}

TEST_CASE("an evenly read file hits by the part of it that is cached") {
  // 6144 MiB read evenly, in blocks of 1 MiB; the paper's caches in three variants.
  const Popularity parts[] = {{.5, 3072}, {.5, 3072}};
  const auto hits = [&](std::uint32_t mib) { return lru_hits(parts, mib).value(); };
  const auto both = [&](std::uint32_t io, std::uint32_t target) {
    return 1 - (1 - hits(6 * io)) * (1 - hits(12 * target));
  };
  CHECK(hits(18 * 256) == Approx(.750).epsilon(1e-3));
  CHECK(both(656, 156) == Approx(.750).epsilon(1e-3));
  CHECK(both(656, 196) == Approx(.778).epsilon(1e-3));
  CHECK(both(724, 156) == Approx(.796).epsilon(1e-3));
  CHECK(hits(0) == 0);
  CHECK(hits(6144) == 1);
}

namespace {

class Lru {
 public:
  explicit Lru(std::size_t blocks) : blocks_(blocks) {}
  // Whether it has the block, which it has from now on.
  bool hits(std::uint64_t block) {
    if (const auto found = held_.find(block); found != held_.end()) {
      order_.splice(order_.begin(), order_, found->second);
      return true;
    }
    order_.push_front(block);
    held_[block] = order_.begin();
    if (order_.size() > blocks_) {
      held_.erase(order_.back());
      order_.pop_back();
    }
    return false;
  }

 private:
  std::size_t blocks_;
  std::list<std::uint64_t> order_;
  std::unordered_map<std::uint64_t, std::list<std::uint64_t>::iterator> held_;
};

struct Simulated {
  double first = 0;
  double below = 0;  // of what missed in the first
};

Simulated simulated(std::span<const Popularity> parts, std::size_t cache, std::size_t below,
                    unsigned seed) {
  std::mt19937 random(seed);
  Lru first(cache);
  Lru second(below);
  std::uniform_real_distribution<double> draw(0, 1);
  int hits = 0;
  int hits_below = 0;
  constexpr int kWarm = 20000;
  constexpr int kCounted = 60000;
  for (int i = 0; i < kWarm + kCounted; ++i) {
    double at = draw(random);
    std::size_t part = 0;
    while (part + 1 < parts.size() && at >= parts[part].accesses) at -= parts[part++].accesses;
    const auto blocks = static_cast<std::uint64_t>(parts[part].blocks);
    const std::uint64_t block = std::uint64_t{part} << 32 | random() % blocks;
    const bool hit = first.hits(block);
    const bool hit_below = !hit && second.hits(block);
    if (i < kWarm) continue;
    hits += hit ? 1 : 0;
    hits_below += hit_below ? 1 : 0;
  }
  return {static_cast<double>(hits) / kCounted,
          static_cast<double>(hits_below) / std::max(1, kCounted - hits)};
}

}  // namespace

TEST_CASE("Dan and Towsley's hit rates are those of a simulated cache") {
  const Popularity skewed[] = {{.8, 200}, {.2, 800}};
  const Popularity three[] = {{.6, 50}, {.3, 200}, {.1, 1000}};
  for (const std::uint32_t cache : {50U, 200U, 500U}) {
    CAPTURE(cache);
    const double of_skewed = simulated(skewed, cache, 1, 1).first;
    CHECK(lru_hits(skewed, cache).value() == Approx(of_skewed).margin(.01));
    const double of_three = simulated(three, cache, 1, 2).first;
    CHECK(lru_hits(three, cache).value() == Approx(of_three).margin(.01));
  }
  // By their own recursion, worked out once, and by a simulation that was.
  const Popularity halves[] = {{.5, 100}, {.5, 900}};
  struct Known {
    std::span<const Popularity> parts;
    std::uint32_t cache;
    double computed;
    double simulated;
  };
  for (const Known& known : {Known{skewed, 100, .3114, .3100},
                             {skewed, 300, .7647, .7640},
                             {skewed, 700, .9250, .9249},
                             {halves, 50, .1326, .1312}}) {
    CAPTURE(known.cache);
    CHECK(lru_hits(known.parts, known.cache).value() == Approx(known.computed).margin(5e-5));
    CHECK(simulated(known.parts, known.cache, 1, 3).first == Approx(known.simulated).margin(.01));
  }
  const Popularity odd[] = {{.5, 10}};
  CHECK_FALSE(lru_hits(odd, 5));
  CHECK_FALSE(lru_hits({}, 5));
  const Popularity empty[] = {{1, 0}};
  CHECK_FALSE(lru_hits(empty, 5));
}

TEST_CASE("a cache below another hits as often as a simulated one") {
  const Popularity even[] = {{1, 1000}};
  const Popularity skewed[] = {{.8, 200}, {.2, 800}};
  const Popularity three[] = {{.6, 50}, {.3, 200}, {.1, 1000}};
  for (const auto& [cache, below] : {std::pair{50U, 400U},
                                     {200U, 100U},
                                     {200U, 600U},
                                     {400U, 450U},
                                     {500U, 800U},
                                     {600U, 900U}}) {
    CAPTURE(cache, below);
    unsigned seed = 0;
    for (const std::span<const Popularity> parts :
         {std::span<const Popularity>(even), {skewed}, {three}}) {
      CAPTURE(parts.size());
      CHECK(lru_hits_below(parts, cache, below).value() ==
            Approx(simulated(parts, cache, below, ++seed).below).margin(.015));
    }
  }
  // A first one so small that there are many times its time.
  for (const std::uint32_t cache : {1U, 3U, 8U}) {
    CAPTURE(cache);
    CHECK(lru_hits_below(even, cache, 900).value() ==
          Approx(simulated(even, cache, 900, cache).below).margin(.015));
  }
  const Popularity large[] = {{1, 20000}};
  CHECK(lru_hits_below(large, 1, 10000).value() == Approx(.5).margin(.001));
  CHECK(lru_hits_below(large, 6, 19999).value() == Approx(1).margin(.001));
  const Popularity hot[] = {{.99, 10}, {.01, 10000}};
  CHECK(lru_hits_below(hot, 8, 5000).value() > .9);
  // What the first keeps for good never comes to the second, which has room for all the rest.
  const Popularity kept[] = {{.9, 1000}, {.1, 9000}};
  CHECK(lru_hits_below(kept, 4800, 9500).value() == Approx(1).margin(.001));
  const Popularity for_ever[] = {{.999999, 10}, {.000001, 10000}};
  CHECK(lru_hits_below(for_ever, 5000, 10005).value() == Approx(1).margin(.001));
  CHECK(lru_hits_below(for_ever, 20, 10005).value() == Approx(1).margin(.001));
  // What is no larger than the first keeps nothing that the first has not.
  CHECK(lru_hits_below(even, 500, 250).value() < .01);
  CHECK(lru_hits_below(even, 0, 500).value() == lru_hits(even, 500).value());
  CHECK(lru_hits_below(even, 1000, 500).value() == 0);
  CHECK(lru_hits_below(even, 500, 1000).value() == 1);
  const Popularity odd[] = {{.5, 10}};
  CHECK_FALSE(lru_hits_below(odd, 5, 5));
}

TEST_CASE("what makes no model of performance is refused") {
  CHECK_FALSE(saturation({0, 0}, {}, {}));
  CHECK_FALSE(saturation({1, 0}, {.request = 0}, {}));
  CHECK_FALSE(saturation({1, 0}, {.unit = 0}, {}));
  CHECK_FALSE(saturation({1, 0}, {.io_hits = 1.1}, {}));
  CHECK_FALSE(saturation({1, 0}, {.target_hits = NAN}, {}));
  CHECK_FALSE(saturation({1, 0}, {.writes = -1}, {}));
  CHECK_FALSE(saturation({1, 0}, {.copies = 0}, {}));
  CHECK_FALSE(saturation({1, 0}, {}, NodeModel{.network = 0}));
  CHECK_FALSE(saturation({1, 0}, {}, NodeModel{.seek = -1}));
}
