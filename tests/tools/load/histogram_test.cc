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

TEST_CASE("the mean is exact") {
  CHECK(Histogram{}.mean() == 0);
  Histogram histogram;
  histogram.add(1'000'001);
  histogram.add(2'000'002);
  histogram.add(3'000'000);
  CHECK(histogram.mean() == 2'000'001);
}
