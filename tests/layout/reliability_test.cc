#include "layout/reliability.h"

#include <rapidcheck.h>

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cmath>

using namespace weft;
using namespace weft::layout;
using Catch::Approx;

namespace {

constexpr double kYear = 8760;

// The paper's: 8 pairs, a node fails once a year and is repaired in a day.
double ratio(double duplicated) { return reliability({8, 2, kYear, 24, duplicated}).value().ratio; }

}  // namespace

TEST_CASE("the figures of CEFT-PVFS: mirrored against as many servers unmirrored") {
  CHECK(std::round(ratio(1)) == 368);
  CHECK(std::round(ratio(.99)) == 130);
  CHECK(std::round(ratio(.95)) == 36);
  CHECK(std::round(ratio(0)) == 2);
  // The paper's "over 40 times" is just above .95.
  CHECK(ratio(.95) < 40);
  CHECK(ratio(.96) > 40);
}

TEST_CASE("one pair, always duplicated: the closed form") {
  for (const double mttr : {0.01, 1.0, 24.0, 10000.0}) {
    const double fail = 1 / kYear;
    const double repair = 1 / mttr;
    const double expected = (3 * fail + repair) / (2 * fail * fail);
    CHECK(reliability({1, 2, kYear, mttr, 1}).value().mttdl_hours ==
          Approx(expected).epsilon(1e-12));
  }
}

TEST_CASE("one group of three: the closed form") {
  const double a = 1 / kYear;
  for (const double mttr : {0.001, 1.0, 24.0, 5000.0}) {
    const double m = 1 / mttr;
    // Mean times from none to one down, to two, to three; each server is repaired alone.
    const double t0 = 1 / (3 * a);
    const double t1 = (1 + m * t0) / (2 * a);
    const double t2 = (1 + 2 * m * t1) / a;
    CHECK(reliability({1, 3, kYear, mttr, 1}).value().mttdl_hours ==
          Approx(t0 + t1 + t2).epsilon(1e-12));
  }
}

TEST_CASE("a group of three whose leader may have lone bytes: solved by hand") {
  const double a = 1 / 1000.0;  // failures
  const double m = 1 / 50.0;    // repairs
  const double lone = a * 0.3;
  // The mean times from none, one and two down, as each follows from the others.
  double t0 = 0;
  double t1 = 0;
  double t2 = 0;
  for (int i = 0; i < 100000; ++i) {
    t2 = (1 + 2 * m * t1) / (2 * m + a);
    t1 = (1 + m * t0 + (2 * a - lone) * t2) / (m + 2 * a);
    t0 = (1 + (3 * a - lone) * t1) / (3 * a);
  }
  CHECK(reliability({1, 3, 1000, 50, 0.7}).value().mttdl_hours == Approx(t0).epsilon(1e-9));
}

TEST_CASE("without repair to speak of, mirrors are servers in parallel") {
  const double slow = 1e12;
  CHECK(reliability({1, 2, 100, slow, 1}).value().mttdl_hours == Approx(150).epsilon(1e-6));
  CHECK(reliability({1, 3, 100, slow, 1}).value().mttdl_hours ==
        Approx(100 * (1 + 1 / 2. + 1 / 3.)).epsilon(1e-6));
}

TEST_CASE("one copy is the unmirrored system") {
  const auto result = reliability({16, 1, kYear, 0, 1}).value();
  CHECK(result.mttdl_hours == Approx(kYear / 16));
  CHECK(result.ratio == 1);
}

TEST_CASE("precision holds where losses are rarest") {
  // A third of the mean for each of three groups: they are nearly exponential.
  const double one = reliability({1, 3, 1e6, 0.01, 1}).value().mttdl_hours;
  const double three = reliability({3, 3, 1e6, 0.01, 1}).value().mttdl_hours;
  CHECK(one == Approx(1e6 * 1e16 / 3).epsilon(1e-6));
  CHECK(three == Approx(one / 3).epsilon(1e-6));
}

TEST_CASE("the largest plans are solved") {
  const double pairs = reliability({256, 2, kYear, 24, 1}).value().ratio;
  CHECK(pairs == Approx(368).epsilon(0.01));
  CHECK(reliability({64, 3, kYear, 24, 1}).value().ratio > 100 * pairs);
}

TEST_CASE("more copies, faster repair and less to lose never hurt") {
  CHECK(rc::check([] {
    const auto groups = *rc::gen::inRange<std::uint32_t>(1, 20);
    const auto copies = *rc::gen::inRange<std::uint32_t>(1, 4);
    const double mttf = *rc::gen::inRange(1000, 100000);
    const double mttr = *rc::gen::inRange(1, 1000);
    const double part = *rc::gen::inRange(0, 100) / 100.0;
    const auto of = [](const ReliabilityInput& input) {
      return reliability(input).value().mttdl_hours;
    };
    const double base = of({groups, copies, mttf, mttr, part});
    const double slack = base * 1e-9;
    RC_ASSERT(base > 0);
    RC_ASSERT(of({groups, copies, mttf, mttr / 2, part}) >= base - slack);
    RC_ASSERT(of({groups, copies, mttf, mttr, part + 0.01}) >= base - slack);
    RC_ASSERT(of({groups, copies, mttf * 2, mttr, part}) >= base - slack);
    RC_ASSERT(of({groups + 1, copies, mttf, mttr, part}) <= base + slack);
    if (copies < 3) RC_ASSERT(of({groups, copies + 1, mttf, mttr, part}) >= base - slack);
  }));
}

TEST_CASE("what is duplicated follows from the window and the writes") {
  CHECK(duplicated_part(0, 1).value() == 1);
  CHECK(duplicated_part(0.05, 1).value() == Approx(.95));
  CHECK(duplicated_part(2, 1).value() == 0);
  CHECK_FALSE(duplicated_part(-1, 1));
  CHECK_FALSE(duplicated_part(1, 0));
  CHECK_FALSE(duplicated_part(NAN, 1));
}

TEST_CASE("the chance of loss is small when MTTDL is long, and precise") {
  CHECK(chance_of_loss(1e15, 10) == Approx(1e-14));
  CHECK(chance_of_loss(100, 100) == Approx(1 - std::exp(-1)));
}

TEST_CASE("what makes no model is refused") {
  CHECK_FALSE(reliability({0, 2, 1, 1, 1}));
  CHECK_FALSE(reliability({257, 2, 1, 1, 1}));
  CHECK_FALSE(reliability({1, 0, 1, 1, 1}));
  CHECK_FALSE(reliability({1, 4, 1, 1, 1}));
  CHECK_FALSE(reliability({1, 2, 0, 1, 1}));
  CHECK_FALSE(reliability({1, 2, 1, 0, 1}));
  CHECK_FALSE(reliability({1, 2, INFINITY, 1, 1}));
  CHECK_FALSE(reliability({1, 2, 1, NAN, 1}));
  CHECK_FALSE(reliability({1, 2, 1, 1, 1.1}));
  CHECK_FALSE(reliability({1, 2, 1, 1, NAN}));
}
