#include "ganesha-fsal/admin/reply_room.h"

#include <catch2/catch_test_macros.hpp>

#include "ganesha-fsal/admin/protocol.h"

namespace weft::mds::admin {
namespace {

std::vector<OptionReport> options(std::size_t count) {
  const std::string text(120, 'x');
  return std::vector<OptionReport>(count, {"store.path", text, text});
}

AboutTargetReport target(std::size_t at, std::size_t count) {
  return {.address = "tcp:storage-of-a-long-name-" + std::to_string(at) + ".example:9640",
          .version = "0.2.0",
          .options = options(count),
          .why = {}};
}

TargetsReport many(std::uint32_t servers, std::size_t targets, std::size_t count = 40) {
  TargetsReport report;
  for (std::uint32_t id = 1; id <= servers; ++id) {
    report.servers.push_back({.server = {id, "ds" + std::to_string(id)}, .targets = {}, .why = {}});
    for (std::size_t at = 0; at < targets; ++at) {
      report.servers.back().targets.push_back(target(at, count));
    }
  }
  return report;
}

}  // namespace

TEST_CASE("reply room: what fits is told as it is") {
  TargetsReport few = many(3, 2);
  fit(few);
  for (const ServerTargetsReport& server : few.servers) {
    CHECK(server.why.empty());
    REQUIRE(server.targets.size() == 2);
    CHECK(server.targets[1].options.size() == 40);
    CHECK(server.targets[1].why.empty());
  }
}

TEST_CASE("reply room: of thousands of targets the last ones' options are left out, with a word") {
  TargetsReport report = many(256, 32, 12);
  fit(report);
  const std::string line = reply_line(report);
  CHECK(line.size() < kMaxReplyBytes);
  const auto read = read_reply<TargetsReport>(line);
  REQUIRE(read);
  REQUIRE(read->servers.size() == 256);
  CHECK(read->servers[0].targets.at(0).options.size() == 12);
  const AboutTargetReport& last = read->servers.back().targets.at(31);
  CHECK(last.version == "0.2.0");
  CHECK(last.options.empty());
  CHECK(last.why == "one answer has no room for all: weft config show 256");
}

TEST_CASE("reply room: of more targets than can be named it says whose are left out") {
  TargetsReport report = many(4000, 32, 0);
  fit(report);
  const auto read = read_reply<TargetsReport>(reply_line(report));
  REQUIRE(read);
  CHECK(read->servers[0].targets.size() == 32);
  CHECK(read->servers[3999].targets.empty());
  CHECK(read->servers[3999].why == "one answer has no room for all: weft config show 4000");
}

TEST_CASE("reply room: a reason that is known stays, where options are left out") {
  TargetsReport report = many(2, 1);
  report.servers[1].targets[0].why = "it is not connected";
  fit(report, {.options = 1, .targets = 1 << 20});
  CHECK(report.servers[0].targets[0].why == "one answer has no room for all: weft config show 1");
  CHECK(report.servers[1].targets[0].why == "it is not connected");
}

TEST_CASE("reply room: data servers' own options are left out likewise") {
  ServersOptionsReport report;
  for (std::uint32_t id = 1; id <= 1000; ++id) {
    report.servers.push_back(
        {.server = {id, "ds" + std::to_string(id)}, .options = options(100), .why = {}});
  }
  fit(report);
  const auto read = read_reply<ServersOptionsReport>(reply_line(report));
  REQUIRE(read);
  CHECK(read->servers[0].options.size() == 100);
  CHECK(read->servers[999].options.empty());
  CHECK(read->servers[999].why == "one answer has no room for all: weft config show 1000");
}

}  // namespace weft::mds::admin
