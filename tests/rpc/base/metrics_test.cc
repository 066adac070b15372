#include "rpc/base/metrics.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "tests/rpc/base/http_client.h"

namespace weft {
namespace {

std::string scrape(int port) { return http_get(port, "/metrics"); }

TEST_CASE("metrics are written in Prometheus' text format") {
  Metrics metrics;
  metrics.counter("weft_errors_total", "Answers that were \"no\"", 12345678901);
  metrics.gauge("weft_servers", "Servers", 3, {{"state", "up"}});
  metrics.gauge("weft_servers", "Servers", 1, {{"state", "down"}, {"name", "a\n\"b\""}});
  CHECK(metrics.text() ==
        "# HELP weft_errors_total Answers that were \"no\"\n"
        "# TYPE weft_errors_total counter\n"
        "weft_errors_total 12345678901\n"
        "# HELP weft_servers Servers\n"
        "# TYPE weft_servers gauge\n"
        "weft_servers{state=\"up\"} 3\n"
        "weft_servers{state=\"down\",name=\"a\\n\\\"b\\\"\"} 1\n");
}

TEST_CASE("a page asks for the values at each scrape, and is gone when destroyed") {
  int scrapes = 0;
  auto page = MetricsPage::open("127.0.0.1:0", [&](Metrics& out) {
    out.counter("weft_scrapes_total", "Scrapes", ++scrapes);
  });
  REQUIRE(page);
  const int port = (*page)->port();
  CHECK(scrape(port).find("\nweft_scrapes_total 1\n") != std::string::npos);
  CHECK(scrape(port).find("\nweft_scrapes_total 2\n") != std::string::npos);
  const auto second = MetricsPage::open("127.0.0.1:" + std::to_string(port), [](Metrics&) {});
  CHECK(second.error() == Errc::kInvalid);
  CHECK(second.error().text ==
        "metrics page at 127.0.0.1:" + std::to_string(port) + ": Address already in use");
  const auto elsewhere = MetricsPage::open("192.0.2.1:9", [](Metrics&) {});
  CHECK(elsewhere.error().text == "metrics page at 192.0.2.1:9: Cannot assign requested address");
  page->reset();
  CHECK(scrape(port).empty());
}

}  // namespace
}  // namespace weft
