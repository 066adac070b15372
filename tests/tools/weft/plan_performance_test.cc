#include "tools/weft/plan_performance.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include "dataserver/parity/geometry.h"

using Catch::Approx;

namespace weft::cli {
namespace {

PerformanceOptions eighteen(double hits) {
  PerformanceOptions options;
  options.servers = 18;
  options.work.io_hits = options.work.target_hits = hits;
  return options;
}

}  // namespace

TEST_CASE("the performance plan says whether two tiers pay", "[weft]") {
  auto options = eighteen(.5);
  options.servers = 24;
  const auto plan = plan_performance(options);
  REQUIRE(plan);
  CHECK(performance_text(*plan) ==
        "ARRANGEMENT             HITS  REQUESTS/S  MIB/S  BOUND BY\n"
        "one tier of 24         50.0%       6,832    427  disks\n"
        "two: 12 x 1     50.0%, 50.0%       6,832    427  disks\n"
        "two: 8 x 2      50.0%, 50.0%       9,109    569  disks\n"
        "two: 6 x 3      50.0%, 50.0%       7,200    450  network of the I/O nodes\n"
        "two: 4 x 5      50.0%, 50.0%       4,800    300  network of the I/O nodes\n"
        "two: 3 x 7      50.0%, 50.0%       3,600    225  network of the I/O nodes\n"
        "two: 2 x 11     50.0%, 50.0%       2,400    150  network of the I/O nodes\n"
        "two: 1 x 23     50.0%, 50.0%       1,200     75  network of the I/O nodes\n"
        "\n"
        "Two tiers pay: 8 I/O nodes with 2 targets each carry 1.33 times what one tier does.\n");
  const auto json = performance_json(*plan);
  CHECK(json["two_tiers_pay"] == true);
  CHECK(json["arrangements"][3]["requests_per_second"].get<double>() == Approx(7200).margin(1));
  const auto warm = plan_performance(eighteen(.8));
  CHECK(performance_text(*warm).ends_with("\nTwo tiers do not pay: one carries the most.\n"));
}

TEST_CASE("response times are given where there are any", "[weft]") {
  auto options = eighteen(.5);
  options.rate = 4500;
  const auto plan = plan_performance(options);
  REQUIRE(plan);
  const std::string text = performance_text(*plan);
  CHECK(text.find("18.2 ms") != std::string::npos);
  CHECK(text.find("saturated") != std::string::npos);
  const auto json = performance_json(*plan);
  CHECK(json["arrangements"][0]["response_ms"].get<double>() == Approx(18.18).epsilon(.001));
  CHECK(json["arrangements"][4]["response_ms"].is_null());
}

TEST_CASE("hit rates follow from data and memory", "[weft]") {
  auto options = eighteen(0);
  options.data = 6144;
  options.memory = 256;
  const auto plan = plan_performance(options);
  REQUIRE(plan);
  CHECK(plan->best == 0);  // with the same memory everywhere, two tiers do not pay
  CHECK(plan->arrangements[0].work.io_hits == Approx(.75).epsilon(1e-3));
  CHECK(plan->arrangements[3].tiers == layout::Tiers{3, 5});
  CHECK(plan->arrangements[3].work.io_hits == Approx(.125).epsilon(1e-3));
  // The targets have most of what the I/O nodes have, too.
  CHECK(plan->arrangements[3].work.target_hits == Approx(.5715).epsilon(1e-3));
  options.target_memory = 128;
  CHECK(plan_performance(options)->arrangements[3].work.target_hits == Approx(.2144).epsilon(1e-3));
  options.memory = options.data = 0;
  CHECK(plan_performance(options).error().text.starts_with("--target-memory needs"));
  options.data = 6144;
  options.memory = 256;
  options.target_memory = 0;
  options.hot_accesses = .8;
  options.hot_data = .2;
  const auto skewed = plan_performance(options);
  REQUIRE(skewed);
  CHECK(skewed->arrangements[0].work.io_hits > .8);
}

TEST_CASE("I/O nodes without a cache leave it to the targets", "[weft]") {
  auto options = eighteen(0);
  options.data = 6144;
  options.memory = 256;
  options.io_cache = false;
  auto plan = plan_performance(options);
  REQUIRE(plan);
  CHECK(plan->arrangements[0].work.io_hits == Approx(.75).epsilon(1e-3));
  CHECK(plan->arrangements[3].work.io_hits == 0);
  CHECK(plan->arrangements[3].work.target_hits == Approx(.625).epsilon(1e-3));
  options = eighteen(.5);
  options.io_cache = false;
  plan = plan_performance(options);
  CHECK(plan->arrangements[0].work.io_hits == .5);
  CHECK(plan->arrangements[3].work.io_hits == 0);
  CHECK(plan->arrangements[3].work.target_hits == .5);
  CHECK(plan->best == 0);  // without the second cache two tiers never pay
}

TEST_CASE("slow nodes are targets where they can be", "[weft]") {
  auto options = eighteen(.5);
  options.slow = 12;
  CHECK(plan_performance(options).error().text == "--slow and --slower belong together");
  options.slower = 1.5;
  const auto plan = plan_performance(options);
  REQUIRE(plan);
  const auto rate = [&](std::size_t at) { return plan->arrangements[at].performance.saturation; };
  CHECK(rate(0) == Approx(5124 / 1.5).epsilon(.02));
  CHECK(plan->arrangements[3].tiers == layout::Tiers{3, 5});
  CHECK(rate(3) == Approx(3600).epsilon(1e-3));  // its 15 targets are not what binds it
  CHECK(plan->best != 0);
  options.slow = 19;
  CHECK_FALSE(plan_performance(options));
}

TEST_CASE("only groups that weft-ds takes are planned", "[weft]") {
  auto options = eighteen(0);
  for (options.servers = 1; options.servers <= 130; ++options.servers) {
    const auto plan = plan_performance(options);
    REQUIRE(plan);
    for (const auto& [tiers, work, performance, response] : plan->arrangements) {
      CAPTURE(tiers.io_nodes, tiers.targets);
      CHECK((tiers.targets <= 1 || ds::ParityGeometry{.members = tiers.targets}.valid()));
    }
  }
}

TEST_CASE("rates beyond reason are printed all the same", "[weft]") {
  auto options = eighteen(.999999);
  options.work.request = 1e-300;
  const auto plan = plan_performance(options);
  REQUIRE(plan);
  CHECK_FALSE(performance_text(*plan).empty());
}

TEST_CASE("what is missing or does not fit is named", "[weft]") {
  const auto complaint = [](auto change) {
    PerformanceOptions options = eighteen(0);
    change(options);
    const auto plan = plan_performance(options);
    return plan ? std::string() : plan.error().text;
  };
  CHECK(complaint([](PerformanceOptions&) {}).empty());
  CHECK(complaint([](auto& o) { o.servers = 0; }).starts_with("--servers"));
  CHECK(complaint([](auto& o) { o.data = 1; }).starts_with("--data"));
  CHECK(complaint([](auto& o) { o.memory = 1; }).starts_with("--data"));
  CHECK(complaint([](auto& o) {
          o.data = o.memory = 1;
          o.work.io_hits = .1;
        }).starts_with("--hits"));
  CHECK(complaint([](auto& o) { o.hot_data = .1; }).starts_with("--hot-accesses"));
  CHECK(complaint([](auto& o) {
          o.hot_data = o.hot_accesses = .1;
        }).starts_with("--hot-accesses needs"));
  CHECK_FALSE(complaint([](auto& o) { o.work.writes = 2; }).empty());
}

}  // namespace weft::cli
