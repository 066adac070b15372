#include "tools/weft/plan.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

using Catch::Approx;
using weft::layout::Duplication;

namespace weft::cli {
namespace {

constexpr double kDay = 86400;

ReliabilityOptions paper() {
  ReliabilityOptions options;
  options.groups = 8;
  options.mttf = 365 * kDay;
  options.mttr = kDay;
  return options;
}

}  // namespace

TEST_CASE("the reliability plan of the paper's system", "[weft]") {
  const auto plan = plan_reliability(paper());
  REQUIRE(plan);
  CHECK(plan->result.ratio == Approx(368).epsilon(0.002));
  const std::string text = reliability_text(*plan);
  CHECK(text.find("server-sync, 2 copies, 16 servers  ") != std::string::npos);
  CHECK(text.find("unmirrored, 16 servers") != std::string::npos);
  CHECK(text.find("1 d 0 h") != std::string::npos);
  const auto json = reliability_json(*plan);
  CHECK(json["mttr_hours"] == 24);
  CHECK(json["protocol"] == "server-sync");
  CHECK(json["loss_in_1_year"].get<double>() == Approx(0.0425).epsilon(0.02));
}

TEST_CASE("an asynchronous protocol's window counts", "[weft]") {
  auto options = paper();
  options.protocol = Duplication::kServerAsync;
  CHECK(plan_reliability(options).error().text.find("--duplicate-time") != std::string::npos);
  options.duplicate_time = 0.05;
  options.write_interval = 1;
  const auto plan = plan_reliability(options);
  REQUIRE(plan);
  CHECK(plan->input.duplicated == Approx(.95));
  CHECK(plan->result.ratio == Approx(36).epsilon(0.02));
  options.protocol = Duplication::kClientSync;
  CHECK_FALSE(plan_reliability(options));
}

TEST_CASE("the time to repair follows from data and rate", "[weft]") {
  auto options = paper();
  options.mttr = 0;
  CHECK(plan_reliability(options).error().text.find("--mttr") != std::string::npos);
  options.data = 3600e6;
  CHECK_FALSE(plan_reliability(options));
  options.rate = 1e6;
  options.detect = 1800;
  CHECK(plan_reliability(options).value().input.mttr_hours == Approx(1.5));
  options.mttr = 5;
  CHECK_FALSE(plan_reliability(options));
}

TEST_CASE("plans beyond reason are printed all the same", "[weft]") {
  auto options = paper();
  options.mttr = 1e30;
  options.mttf = 1e40;
  const auto plan = plan_reliability(options);
  REQUIRE(plan);
  CHECK_FALSE(reliability_text(*plan).empty());
}

TEST_CASE("one copy needs no repair, and is compared with nothing", "[weft]") {
  ReliabilityOptions options;
  options.copies = 1;
  options.groups = 4;
  options.mttf = 365 * kDay;
  const auto plan = plan_reliability(options);
  REQUIRE(plan);
  CHECK(reliability_text(*plan) ==
        "SYSTEM                  MTTDL  LOSS IN 1 YEAR  LOSS IN 5 YEARS\n"
        "unmirrored, 4 servers  91.2 d           98.2%             100%\n");
  options.mttf = 0;
  CHECK_FALSE(plan_reliability(options));
}

}  // namespace weft::cli
