#include "rpc/base/metrics.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "rpc/base/buffer.h"
#include "rpc/base/process_metrics.h"
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

TEST_CASE("a histogram has what took at most so long, and all of it") {
  Latency latency;
  latency.add(std::chrono::microseconds{100});
  latency.add(std::chrono::microseconds{101});
  latency.add(std::chrono::milliseconds{2});
  latency.add(std::chrono::seconds{20});
  latency.add(Nanoseconds{-5});  // a clock that is not ours
  LatencyTotals totals;
  latency.add_to(totals);
  Metrics metrics;
  metrics.histogram("weft_operation_seconds", "How long", totals, {{"op", "read"}});
  const std::string text = metrics.text();
  const auto has = [&](const std::string& line) {
    INFO(text);
    CHECK(text.find(line + "\n") != std::string::npos);
  };
  has("# TYPE weft_operation_seconds histogram");
  has("weft_operation_seconds_bucket{op=\"read\",le=\"0.0001\"} 2");
  has("weft_operation_seconds_bucket{op=\"read\",le=\"0.001\"} 3");
  has("weft_operation_seconds_bucket{op=\"read\",le=\"0.003\"} 4");
  has("weft_operation_seconds_bucket{op=\"read\",le=\"10\"} 4");
  has("weft_operation_seconds_bucket{op=\"read\",le=\"+Inf\"} 5");
  has("weft_operation_seconds_count{op=\"read\"} 5");
  has("weft_operation_seconds_sum{op=\"read\"} 20.002201");
}

// What its process uses, by name.
double used(const char* name) {
  Metrics metrics;
  write_program_metrics("weft-x", "1.2", metrics);
  const std::string text = metrics.text();
  INFO(text);
  const std::size_t at = text.find("\n" + std::string(name) + " ");
  REQUIRE(at != std::string::npos);
  return std::stod(text.substr(text.find(' ', at)));
}

TEST_CASE("a program says its version and what its process uses") {
  Metrics metrics;
  write_program_metrics("weft-x", "1.2", metrics);
  CHECK(metrics.text().contains("weft_build_info{program=\"weft-x\",version=\"1.2\"} 1\n"));
  CHECK(metrics.text().contains("# TYPE process_cpu_seconds_total counter\n"));

  const double open = used("process_open_fds");
  {
    const OwnedFd one(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const OwnedFd other(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    CHECK(used("process_open_fds") == open + 2);
  }
  CHECK(used("process_open_fds") == open);
  CHECK(used("process_max_fds") == static_cast<double>(::sysconf(_SC_OPEN_MAX)));

  const double resident = used("process_resident_memory_bytes");
  std::vector<std::byte> memory(std::size_t{64} << 20, std::byte{1});
  CHECK(used("process_resident_memory_bytes") >= resident + (32 << 20));
  CHECK(memory.back() == std::byte{1});

  const double cpu = used("process_cpu_seconds_total");
  while (used("process_cpu_seconds_total") == cpu) {
  }
  const double started = used("process_start_time_seconds");
  const auto now = static_cast<double>(std::time(nullptr));
  CHECK(started <= now + 1);
  CHECK(started > now - 3600);
}

TEST_CASE("what a process cannot read of itself is not told") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none_left{.rlim_cur = 0, .rlim_max = before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none_left) == 0);
  Metrics metrics;
  write_program_metrics("weft-x", "1.2", metrics);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  const std::string text = metrics.text();
  CHECK(text.contains("\nprocess_max_fds "));
  for (const char* name : {"open_fds", "resident_memory_bytes", "start_time_seconds"}) {
    CHECK_FALSE(text.contains("process_" + std::string(name)));
  }
}

TEST_CASE("what many threads add to a histogram is all there") {
  SharedLatency latency;
  std::vector<std::thread> threads;
  for (int i = 0; i < 20; ++i) {
    threads.emplace_back([&latency] {
      for (int n = 0; n < 1000; ++n) latency.add(std::chrono::milliseconds{1});
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(latency.total().buckets[2] == 20'000);
  CHECK(latency.total().sum_ns == 20'000'000'000);
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
