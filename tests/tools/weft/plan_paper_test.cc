#include "tools/weft/plan_paper.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

using Catch::Approx;

namespace weft::cli {
namespace {

// The rows of the table whose title begins so.
nlohmann::ordered_json rows_of(const nlohmann::ordered_json& tables, const std::string& title) {
  for (const auto& table : tables["tables"]) {
    if (table["title"].get<std::string>().starts_with(title)) return table["rows"];
  }
  FAIL("no table " << title);
  return {};
}

}  // namespace

TEST_CASE("Figure 8 of iPVFS: hits of both tiers, and 6 x 2 before 3 x 5 before 2 x 8", "[weft]") {
  const auto rows = rows_of(paper_performance(), "Figure 8");
  REQUIRE(rows.size() == 10);
  CHECK(rows[0][3].get<double>() == Approx(.75));
  const double hits[] = {.750, .778, .796};
  for (std::size_t caches = 0; caches < 3; ++caches) {
    const auto at = [&](std::size_t which) { return rows[1 + caches * 3 + which]; };
    CHECK(at(0)[3].get<double>() == Approx(hits[caches]));
    for (const std::size_t which : {0U, 1U}) {
      CHECK(at(which)[3].get<double>() > at(which + 1)[3].get<double>());
      CHECK(at(which)[4].get<double>() > at(which + 1)[4].get<double>());
    }
    // With as much memory one tier carries more all the same, which the paper does not find.
    CHECK(rows[0][4].get<double>() > at(0)[4].get<double>());
  }
}

TEST_CASE("what the papers' tables say is printed", "[weft]") {
  const auto performance = paper_performance();
  CHECK(rows_of(performance, "requests of 64 KiB")[3] ==
        nlohmann::ordered_json{.5, 5124.0, 6832.0, 3600.0, 2400.0});
  const std::string text = paper_text(performance);
  CHECK(text.find("requests/s  PVFS 18    6 x 2  3 x 5      2 x 8\n") != std::string::npos);
  CHECK(text.find("saturated") != std::string::npos);
  CHECK(paper_text(paper_reliability()).find("0.99         71326            130\n") !=
        std::string::npos);
}

}  // namespace weft::cli
