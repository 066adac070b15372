#include "tools/weft/config_show.h"

#include <catch2/catch_test_macros.hpp>

namespace weft::cli {

namespace {

RunningConfig told() {
  return {
      .here =
          mds::ConfigReport{
              .options = {{"Key_File", "/etc/weft/cluster.key", ""}, {"Resync_Rate", "100", "100"}},
              .exports = {{1, "/weft", {{"Copies", "2", "1"}, {"Duplication", "", ""}}},
                          {2, "/plain", {{"PNFS", "true", "true"}}}}},
      .servers = {{{.server = {3, "ds1"},
                    .options = {{"cache.size", "1 GiB", "0"}, {"store.mode", "a", "a"}},
                    .why = {}},
                   {.server = {4, "ds2"}, .options = {}, .why = "it is not connected"}}},
      .targets = {{{.server = {3, "ds1"},
                    .targets = {{.address = "unix:/t",
                                 .version = "1.2",
                                 .options = {{"store.path", "/s", ""}, {"store.mode", "a", "a"}},
                                 .why = {}},
                                {.address = "tcp:t:1",
                                 .version = {},
                                 .options = {},
                                 .why = "it is not connected"}},
                    .why = {}}}}};
}

}  // namespace

TEST_CASE("options are told with what is no default", "[weft]") {
  const RunningConfig report = told();
  CHECK(config_text(report) == R"(metadata server
OPTION       VALUE                  DEFAULT
Key_File     /etc/weft/cluster.key  no: -
Resync_Rate  100                    yes

export 1 /weft
OPTION       VALUE  DEFAULT
Copies           2  no: 1
Duplication      -  yes

export 2 /plain
OPTION  VALUE  DEFAULT
PNFS    true   yes

data server 3 (ds1)
OPTION      VALUE  DEFAULT
cache.size  1 GiB  no: 0
store.mode  a      yes

data server 4 (ds2): not known: it is not connected

target unix:/t of data server 3 (ds1)
OPTION      VALUE  DEFAULT
store.path  /s     no: -
store.mode  a      yes

target tcp:t:1 of data server 3 (ds1): not known: it is not connected
)");
  CHECK(config_text(only_changed(report)) == R"(metadata server
OPTION    VALUE                  DEFAULT
Key_File  /etc/weft/cluster.key  no: -

export 1 /weft
OPTION  VALUE  DEFAULT
Copies      2  no: 1

export 2 /plain
all are the defaults

data server 3 (ds1)
OPTION      VALUE  DEFAULT
cache.size  1 GiB  no: 0

data server 4 (ds2): not known: it is not connected

target unix:/t of data server 3 (ds1)
OPTION      VALUE  DEFAULT
store.path  /s     no: -

target tcp:t:1 of data server 3 (ds1): not known: it is not connected
)");
  const Json json = config_json(report);
  CHECK(json["exports"][0]["options"][0] ==
        Json{{"name", "Copies"}, {"value", 2}, {"default", 1}, {"is_default", false}});
  CHECK(json["options"][1]["is_default"] == true);
  CHECK(json["data_servers"][0]["options"][0]["is_default"] == false);
  CHECK(json["data_servers"][1]["why"] == "it is not connected");
  CHECK(json["targets"][0]["data_server"] == "ds1");
  CHECK(json["targets"][0]["options"][1]["is_default"] == true);
  CHECK(json["targets"][1]["why"] == "it is not connected");
  RunningConfig one = report;
  one.here.reset();
  CHECK(config_text(one).starts_with("data server 3 (ds1)\n"));
  CHECK_FALSE(config_json(one).contains("options"));
}

TEST_CASE("values are of the kind that their defaults are", "[weft]") {
  RunningConfig report = told();
  report.servers.servers[0].options = {{"server.name", "7", ""},
                                       {"cache.size", "1 GiB", "0"},
                                       {"mirror.timeout_seconds", "2 s", "10 s"},
                                       {"server.shared_memory", "false", "true"},
                                       {"target.socket_mode", "0600", "0660"},
                                       {"store.mode", "direct", "buffered"}};
  const Json json = config_json(report);
  std::vector<Json> values;
  for (const Json& option : json["data_servers"][0]["options"]) values.push_back(option["value"]);
  CHECK(values == std::vector<Json>{"7", 1 << 30, 2, false, "0600", "direct"});
  CHECK(json["data_servers"][0]["options"][2]["default"] == 10);
  CHECK(json["exports"][0]["options"][1]["value"] == "");
  CHECK(json["exports"][1]["options"][0]["default"] == true);
}

TEST_CASE("why a data server does not tell of its targets is said once", "[weft]") {
  RunningConfig report = told();
  report.targets.servers = {
      {.server = {3, "ds1"}, .targets = {}, .why = "too old to tell of its targets"},
      {.server = {4, "ds2"}, .targets = {}, .why = "it is not connected"}};
  CHECK(config_text(report).ends_with(R"(
data server 4 (ds2): not known: it is not connected

targets of data server 3 (ds1): not known: too old to tell of its targets
)"));
  const Json json = config_json(report);
  CHECK(json["data_servers"][0]["why_no_targets"] == "too old to tell of its targets");
  CHECK(json["data_servers"][1]["why_no_targets"] == "it is not connected");
}

}  // namespace weft::cli
