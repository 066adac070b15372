#include "ganesha-fsal/server/status_page.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "rpc/xdr/describe_json.h"
#include "tests/rpc/base/http_client.h"

namespace weft::mds {
namespace {

struct Source {
  Result<SystemReport> report() {
    ++asked;
    if (!answers) return fail(Errc::kIo, "no answer");
    SystemReport report;
    report.status.version = "1.2.3";
    report.status.clients = 4;
    report.status.strays = 3;
    report.data_servers.emplace_back();
    report.data_servers.back().id = 7;
    report.data_servers.back().name = "</script><b>\xff";
    return report;
  }
  Result<std::unique_ptr<StatusPage>> page(weft::Clock& clock) {
    return StatusPage::open("127.0.0.1:0",
                            {.status = [this] { return report(); },
                             .clients = [this] { return clients(); },
                             .events = [this] { return events(); }},
                            clock);
  }
  Result<ClientsReport> clients() {
    ++asked_clients;
    ClientsReport report{.lease_ms = 10, .count = 25, .clients = {}};
    for (std::uint64_t id = 1; id <= 25; ++id) report.clients.push_back({.id = id});
    return report;
  }
  Result<EventsReport> events() {
    ++asked_events;
    EventsReport report{.newest = 100, .events = {}};
    for (std::uint64_t number = 1; number <= 100; ++number) {
      report.events.push_back({.number = number});
    }
    return report;
  }

  int asked = 0;
  int asked_clients = 0;
  int asked_events = 0;
  bool answers = true;
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Result<Json> json_at(int port, const std::string& path) {
  const std::string answer = http_get(port, path);
  return parse_json(answer.substr(answer.find("\r\n\r\n") + 4), 16);
}

}  // namespace

TEST_CASE("the status page is the reports as JSON, and files that show them", "[admin]") {
  Source source;
  ManualClock clock;
  const auto page = source.page(clock);
  REQUIRE(page);
  const int port = (*page)->port();
  const std::string html = http_get(port, "/");
  CHECK(has(html, "text/html"));
  CHECK(has(html, "<script src=\"page.js\" defer></script>"));
  CHECK(has(http_get(port, "/page.css"), "text/css"));
  CHECK(has(http_get(port, "/page.js"), "textContent"));
  CHECK(source.asked == 0);

  const std::string answer = http_get(port, "/status.json");
  CHECK(has(answer, "\r\nContent-Type: application/json; charset=utf-8\r\n"));
  const auto json = parse_json(answer.substr(answer.find("\r\n\r\n") + 4), 16);
  REQUIRE(json);
  CHECK((*json)["version"] == "1.2.3");
  CHECK((*json)["clients"] == 4);
  CHECK((*json)["data_servers"][0]["id"] == 7);
  // What `weft status` and `weft health` say.
  REQUIRE((*json)["problems"].size() == 2);
  CHECK((*json)["problems"][1] ==
        "Data servers have 3 objects that no file needs: weft audit start removes them.");
}

TEST_CASE("the status page asks once for many who look", "[admin]") {
  Source source;
  ManualClock clock;
  const auto page = source.page(clock);
  REQUIRE(page);
  const int port = (*page)->port();
  const std::string first = http_get(port, "/status.json");
  CHECK(http_get(port, "/status.json") == first);
  CHECK(source.asked == 1);
  clock.advance(StatusPage::kFresh);
  CHECK(http_get(port, "/status.json") == first);
  CHECK(source.asked == 2);
  clock.advance(StatusPage::kFresh);
  source.answers = false;
  CHECK(has(http_get(port, "/status.json"), "503 Service Unavailable"));
}

TEST_CASE("the status page has the first clients and the last events", "[admin]") {
  Source source;
  ManualClock clock;
  const auto page = source.page(clock);
  REQUIRE(page);
  const int port = (*page)->port();
  const auto clients = json_at(port, "/clients.json");
  REQUIRE(clients);
  CHECK((*clients)["count"] == 25);
  CHECK((*clients)["clients"].size() == StatusPage::kMostClients);
  CHECK((*clients)["clients"][0]["id"] == 1);
  clock.advance(StatusPage::kFresh);
  CHECK(json_at(port, "/clients.json"));
  CHECK(source.asked_clients == 1);  // all layouts are looked at: less often
  clock.advance(StatusPage::kFreshClients);
  CHECK(json_at(port, "/clients.json"));
  CHECK(source.asked_clients == 2);
  const auto events = json_at(port, "/events.json");
  REQUIRE(events);
  CHECK((*events)["events"].size() == StatusPage::kMostEvents);
  CHECK((*events)["events"][0]["number"] == 71);
  CHECK((*events)["events"].back()["number"] == 100);
}

}  // namespace weft::mds
