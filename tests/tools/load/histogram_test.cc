#include "tools/load/histogram.h"

#include <rapidcheck.h>

#include <catch2/catch_test_macros.hpp>

using weft::load::Histogram;

TEST_CASE("an empty histogram has no quantiles") { CHECK(Histogram{}.quantile(0.5) == 0); }

TEST_CASE("quantiles are within 1/32 above the exact ones") {
  CHECK(rc::check([](std::vector<std::uint32_t> values) {
    RC_PRE(!values.empty());
    Histogram histogram;
    for (const std::uint32_t value : values) histogram.add(value);
    std::sort(values.begin(), values.end());
    for (const double fraction : {0.01, 0.5, 0.9, 0.99, 1.0}) {
      const auto rank =
          static_cast<std::size_t>(std::ceil(fraction * static_cast<double>(values.size())));
      const std::uint64_t exact = values[std::max<std::size_t>(rank, 1) - 1];
      const std::uint64_t got = histogram.quantile(fraction);
      RC_ASSERT(got >= exact);
      RC_ASSERT(got <= exact + exact / 32 + 1);
    }
  }));
}

TEST_CASE("merging adds the samples of both") {
  Histogram a;
  Histogram b;
  a.add(10);
  b.add(1'000'000);
  a.merge(b);
  CHECK(a.count() == 2);
  CHECK(a.max() == 1'000'000);
  CHECK(a.quantile(0.5) == 10);
}

TEST_CASE("the mean is exact") {
  CHECK(Histogram{}.mean() == 0);
  Histogram one;
  Histogram other;
  one.add(1'000'001);
  other.add(2'000'002);
  other.add(3'000'000);
  one.merge(other);
  CHECK(one.mean() == 2'000'001);
}
