#include "tools/weft/versions.h"

#include <catch2/catch_test_macros.hpp>
#include <sstream>

#include "tools/weft/table.h"

namespace weft::cli {
namespace {

mds::DataServerReport server(std::uint32_t id, const std::string& version) {
  mds::DataServerReport report;
  report.id = id;
  report.name = "ds" + std::to_string(id);
  report.version = version;
  return report;
}

Versions mixed() {
  Versions versions{.own = "0.2.0", .metadata_server = "0.2.0"};
  versions.servers = {server(1, "0.2.0"), server(2, "0.1.0"), server(3, "0.2.0"), server(4, "")};
  versions.targets.servers = {
      {.server = {1, "ds1"},
       .targets = {{.address = "tcp:t:1", .version = "0.2.0", .options = {}, .why = {}},
                   {.address = "tcp:u:1", .version = {}, .options = {}, .why = "it is away"}},
       .why = {}},
      {.server = {2, "ds2"}, .targets = {}, .why = "too old to tell of its targets"},
      {.server = {3, "ds3"}, .targets = {}, .why = "it is not connected"},
      {.server = {4, "ds4"}, .targets = {}, .why = "it is not connected"}};
  return versions;
}

}  // namespace

TEST_CASE("versions: a data server that does not tell of its targets says why in its line") {
  const Versions versions = mixed();
  CHECK(versions_text(versions) ==
        R"(PROGRAM          AT              VERSION
weft             this machine    0.2.0
metadata server  this machine    0.2.0
weft-ds          ds1             0.2.0
weft-ds          ds2             0.1.0; too old to tell of its targets
weft-ds          ds3             0.2.0; targets: it is not connected
weft-ds          ds4             not seen; targets: it is not connected
weft-target      tcp:t:1 of ds1  0.2.0
weft-target      tcp:u:1 of ds1  not known: it is away

not all are the same: install one version everywhere
not known: ds4, tcp:u:1 of ds1, targets of ds2, targets of ds3, targets of ds4
)");
  CHECK_FALSE(all_the_same(versions));
  const Json json = versions_json(versions);
  CHECK(json["data_servers"][0]["why_no_targets"] == "");
  CHECK(json["data_servers"][1]["why_no_targets"] == "too old to tell of its targets");
  CHECK(json["targets"][1]["why"] == "it is away");
  CHECK(json["same"] == false);
}

TEST_CASE("versions: a metadata server that is too old to ask says so in its line") {
  Versions versions{.own = "0.2.0", .metadata_server = "0.2.0", .servers = {server(1, "0.2.0")}};
  CHECK(all_the_same(versions));
  CHECK(versions_text(versions).find("too old") == std::string::npos);
  versions.too_old = true;
  CHECK(versions_text(versions) ==
        R"(PROGRAM          AT            VERSION
weft             this machine  0.2.0
metadata server  this machine  0.2.0; too old to tell of its targets
weft-ds          ds1           0.2.0

not known: targets of all data servers
)");
  CHECK_FALSE(all_the_same(versions));
  CHECK(versions_json(versions)["data_servers"][0]["why_no_targets"] ==
        "the metadata server is too old to ask");
}

TEST_CASE("versions: one that is not known is not the same as the others") {
  Versions versions{.own = "0.2.0", .metadata_server = "0.2.0"};
  versions.servers = {server(1, "0.2.0"), server(2, "")};
  CHECK_FALSE(all_the_same(versions));
  CHECK(versions_json(versions)["same"] == false);
  CHECK(versions_json(versions)["unknown"] == Json::array({"ds2"}));
  CHECK(versions_text(versions).ends_with("not seen\n\nnot known: ds2\n"));
  versions.servers.pop_back();
  versions.targets.servers = {
      {.server = {1, "ds1"},
       .targets = {{.address = "tcp:t:1", .version = {}, .options = {}, .why = "it is away"}},
       .why = {}}};
  CHECK(versions_json(versions)["unknown"] == Json::array({"tcp:t:1 of ds1"}));
  versions.targets.servers.front().targets.front().version = "0.2.0";
  CHECK(versions_json(versions)["same"] == true);
  CHECK_FALSE(versions_text(versions).contains("not known"));
}

TEST_CASE("versions: long names and a hundred servers stay within a screen") {
  Versions versions{.own = "0.2.0", .metadata_server = "0.2.0"};
  for (std::uint32_t id = 1; id <= 100; ++id) {
    versions.servers.push_back(server(id, "0.2.0"));
    versions.servers.back().name = std::string(200, 'n') + std::to_string(id);
    versions.targets.servers.push_back(
        {.server = {id, versions.servers.back().name},
         .targets = {{.address = "tcp:" + std::string(200, 't') + ":1",
                      .version = "0.2.0",
                      .options = {},
                      .why = {}}},
         .why = "too old to tell of its targets"});
  }
  std::istringstream lines(versions_text(versions));
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    INFO(line);
    CHECK(columns(line) <= kScreenColumns);
  }
  CHECK(count == 203 + 1 + 8);  // of those that are not known eight are named
}

}  // namespace weft::cli
