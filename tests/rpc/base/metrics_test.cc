#include "rpc/base/metrics.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <string>

namespace weft {
namespace {

// What GET /metrics answers, header and all; empty when nobody listens.
std::string scrape(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  const std::string request = "GET /metrics HTTP/1.0\r\n\r\n";
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
      send(fd, request.data(), request.size(), MSG_NOSIGNAL) > 0) {
    char piece[4096];
    for (ssize_t size = 0; (size = recv(fd, piece, sizeof(piece), 0)) > 0;) {
      answer.append(piece, static_cast<std::size_t>(size));
    }
  }
  close(fd);
  return answer;
}

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
  page->reset();
  CHECK(scrape(port).empty());
}

}  // namespace
}  // namespace weft
