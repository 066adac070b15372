#include "tools/weft/events.h"

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <ctime>
#include <sstream>

#include "rpc/xdr/describe_json.h"

namespace weft::cli {
namespace {

// 25 November 2026, 14:03:59 UTC.
constexpr std::uint64_t kAt = 1'795'615'439'000;

mds::EventReport lost() {
  return {.number = 7,
          .at_ms = kAt,
          .first_ms = kAt - 20'000,
          .times = 1234,
          .level = mds::EventLevel::kWarning,
          .event = "data_server_disconnected",
          .server = mds::ServerName{3, "rack1-machine2"},
          .text = "connection lost: Connection reset by peer, and \x1b[2J what a name may have"};
}

}  // namespace

TEST_CASE("an event fits 80 columns, and disturbs no terminal", "[weft]") {
  ::setenv("TZ", "UTC", 1);
  ::tzset();
  const std::string text = event_text(lost());
  CHECK(text ==
        "11-25 14:03:59  warning  data server 3 (rack1-machine2): connection lost:\n"
        "                         Connection reset by peer, and \\x1b[2J what a name may\n"
        "                         have (1,234 times since 11-25 14:03:39)\n");
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 80);
  mds::EventReport once = lost();
  once.times = 1;
  once.server = {};
  once.text = "grace period ended";
  once.level = mds::EventLevel::kNote;
  CHECK(event_text(once) == "11-25 14:03:59  note     grace period ended\n");
  once.server = mds::ServerName{9, ""};  // removed since
  CHECK(event_text(once) == "11-25 14:03:59  note     data server 9: grace period ended\n");
}

TEST_CASE("events of before are left out", "[weft]") {
  const mds::EventsReport report{.newest = 7, .events = {lost()}};
  CHECK(events_since(report, kAt).events.size() == 1);
  CHECK(events_since(report, kAt + 1).events.empty());
  CHECK(to_json(report)["events"][0]["server"]["name"] == "rack1-machine2");
}

}  // namespace weft::cli
