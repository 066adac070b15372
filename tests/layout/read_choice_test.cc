#include "layout/read_choice.h"

#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <limits>
#include <map>

using namespace weft;
using namespace weft::layout;
using Catch::Approx;

namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

ReaderView idle() {
  ReaderView view;
  view.load.memory_free = 1000;
  view.load.disk = {0, 40, 0};
  view.load.network = {0, 100, 0};
  return view;
}

std::vector<double> rounded(std::initializer_list<double> spares) {
  return rounded_spares(std::span(spares.begin(), spares.size()));
}

// The best use of copies of one stripe at `turns` turns: every way there is to share them.
double best_use(const std::vector<double>& spares, std::size_t turns) {
  double best = 0;
  const auto n = spares.size();
  std::vector<std::size_t> given(n);
  const auto place = [&](auto&& self, std::size_t copy, std::size_t left) -> void {
    if (copy + 1 == n) {
      given[copy] = left;
      ReadParts parts(1);
      for (const std::size_t part : given) {
        parts[0].push_back(static_cast<double>(part) / static_cast<double>(turns));
      }
      best = std::max(best, use_of(parts, {spares}));
      return;
    }
    for (given[copy] = 0; given[copy] <= left; ++given[copy]) {
      self(self, copy + 1, left - given[copy]);
    }
  };
  place(place, 0, turns);
  return best;
}

}  // namespace

TEST_CASE("what a server has to spare for readers is what others leave of its network") {
  ReaderView view = idle();
  CHECK(spare_for_reading(view, 10) == 100);
  view.load.network.used = 75;
  CHECK(spare_for_reading(view, 10) == 25);
  view.served = 50;  // of the 75
  CHECK(spare_for_reading(view, 10) == 75);
  view.served = 200;  // measured at another moment
  CHECK(spare_for_reading(view, 10) == 100);
  view.load.network.used = 200;
  view.served = 0;
  CHECK(spare_for_reading(view, 10) == 0);
  CHECK(spare_for_reading({}, 1 << 30) == kUnlimited);  // nothing is measured
}

TEST_CASE("the disk counts for what is not in memory") {
  ReaderView view = idle();
  CHECK(spare_for_reading(view, 1000) == 100);  // all of it may be
  CHECK(spare_for_reading(view, 2000) == 80);   // half of it comes from the disk
  CHECK(spare_for_reading(view, 4000) == Approx(40 / 0.75));
  view.load.memory_free = 0;
  CHECK(spare_for_reading(view, 10) == 40);
  view.load.disk.used = 30;
  CHECK(spare_for_reading(view, 10) == 10);
}

TEST_CASE("use of the disk by others counts though clients move more, out of memory") {
  ReaderView view = idle();
  view.load.memory_free = 0;
  view.load.disk.used = 30;
  view.served = 90;
  CHECK(spare_for_reading(view, 10) == 40);
  view.load.disk_others = 25;
  CHECK(spare_for_reading(view, 10) == 15);
}

TEST_CASE("a server whose CPUs are busy gives readers what it gives now") {
  ReaderView view = idle();
  view.load.cpu_percent = {100, 99};
  view.load.run_queue_milli = 2001;
  CHECK(spare_for_reading(view, 10) == 0);
  view.served = 20;
  CHECK(spare_for_reading(view, 10) == 20);
  view.load.run_queue_milli = 2000;
  CHECK(spare_for_reading(view, 10) == 100);
}

TEST_CASE("spares are rounded to eighths of the best") {
  CHECK(rounded({100, 90}) == std::vector{1.0, 1.0});
  CHECK(rounded({100, 24}) == std::vector{1.0, 0.25});
  CHECK(rounded({100, 6}) == std::vector{1.0, 0.0});
  CHECK(rounded({0, 0, -1}) == std::vector{1.0, 1.0, 0.0});
  CHECK(rounded({kUnlimited, 50}) == std::vector{1.0, 1.0});
  CHECK(rounded({kUnlimited, 0}) == std::vector{1.0, 0.0});
  CHECK(rounded({-1, kUnlimited}) == std::vector{0.0, 1.0});
}

TEST_CASE("copies get turns in proportion to what they have to spare") {
  CHECK(share_reads({{1, 1}}, 58) == ReadTurns{{0, 1}});
  CHECK(share_reads({{1, 1}, {1, 1}}, 58) == ReadTurns{{0, 1}, {1, 0}});
  CHECK(share_reads({{1, 0}, {0, 1}}, 58) == ReadTurns{{0}, {1}});
  const auto turns = share_reads({{0.25, 1}}, 58);
  CHECK(parts_of(turns, 2)[0][1] == Approx(0.8));
  CHECK(use_of(parts_of(turns, 2), {{0.25, 1}}) == Approx(1));
  // With no room for a longer list, the better one alone.
  CHECK(share_reads({{0.25, 1}}, 2) == ReadTurns{{1}});
  CHECK(share_reads({{0.25, 1}}, 0) == ReadTurns{{1}});
  CHECK(best_of_each({{1, 1}, {0.5, 1}}) == ReadTurns{{0}, {1}});
}

TEST_CASE("among clients a copy with less than half of what the best has is left out") {
  const double half[] = {0.5, 1};
  CHECK(parts_among_clients(half) == std::vector{0.5 / 1.5, 1 / 1.5});
  const double less[] = {0.375, 1};
  CHECK(parts_among_clients(less) == std::vector{0.0, 1.0});
  CHECK(parts_among_clients({}).empty());
}

TEST_CASE("what layouts out make of the copies") {
  const ReadParts both{{0.5, 0.5}};
  CHECK(use_of(both, {{1, 1}}) == 1);
  CHECK(use_of(both, {{0.25, 1}}) == Approx(0.5 / 1.25));
  CHECK(use_of(both, {{0, 1}}) == 0);
  CHECK(use_of({{1, 0}}, {{1, 1}}) == 0.5);
  CHECK(use_of(both, {{1, 1}, {1, 1}}) == 0);  // of another map
  CHECK(use_of(both, {{1, 1, 1}}) == 0);
}

TEST_CASE("no other way to share as many turns is better") {
  CHECK(rc::check([] {
    const auto copies = *rc::gen::inRange<std::size_t>(1, 4);
    std::vector<double> spares;
    for (std::size_t i = 0; i < copies; ++i) {
      spares.push_back(*rc::gen::inRange(0, 9) / 8.0);
    }
    spares[*rc::gen::inRange<std::size_t>(0, copies)] = 1;
    const auto turns = share_reads({spares}, 58);
    const double use = use_of(parts_of(turns, copies), {spares});
    RC_ASSERT(use >= best_use(spares, turns[0].size()) - 1e-9);
    // Nor is any longer list clearly better, and a copy that has nothing to spare is not read.
    for (std::size_t most = 1; most <= kMostTurns; ++most) {
      RC_ASSERT(use * 1.1 >= best_use(spares, most) - 1e-9);
    }
    for (const std::uint8_t copy : turns[0]) RC_ASSERT(spares[copy] > 0);
  }));
}
