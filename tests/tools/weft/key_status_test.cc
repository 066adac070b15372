#include "tools/weft/key_status.h"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

namespace weft::cli {
namespace {

using mds::KeysReport;

KeysReport report_of(std::vector<std::vector<std::string>> keys) {
  KeysReport report;
  for (std::uint32_t id = 0; id < keys.size(); ++id) {
    report.servers.push_back({{id, id == 0 ? "" : "ds-" + std::to_string(id)}, keys[id], ""});
    if (keys[id].empty()) report.servers.back().why = "it is not connected";
  }
  return report;
}

bool may_be_used(const KeysReport& report, std::string_view key) {
  for (const KeyState& state : key_states(report)) {
    if (state.key == key) return state.may_be_used;
  }
  return false;
}

bool may_be_dropped(const KeysReport& report, std::string_view key) {
  for (const KeyState& state : key_states(report)) {
    if (state.key == key) return state.may_be_dropped;
  }
  return true;
}

}  // namespace

TEST_CASE("key status: a new key may be used once every server accepts it", "[weft]") {
  CHECK_FALSE(may_be_used(report_of({{"a", "b"}, {"a"}}), "b"));
  CHECK(may_be_used(report_of({{"a", "b"}, {"a", "b"}}), "b"));
  CHECK_FALSE(may_be_used(report_of({{"a", "b"}, {"a", "b"}, {}}), "b"));
}

TEST_CASE("key status: an old key may be dropped once no server uses it", "[weft]") {
  CHECK_FALSE(may_be_dropped(report_of({{"b", "a"}, {"a", "b"}}), "a"));
  CHECK(may_be_dropped(report_of({{"b", "a"}, {"b", "a"}}), "a"));
  CHECK(may_be_dropped(report_of({{"b", "a"}, {"b"}}), "a"));
  CHECK_FALSE(may_be_dropped(report_of({{"b", "a"}, {"b", "a"}}), "b"));
  // It may use any.
  CHECK_FALSE(may_be_dropped(report_of({{"b", "a"}, {"b", "a"}, {}}), "a"));
}

TEST_CASE("key status: a line for each server, and for each key what may be done", "[weft]") {
  CHECK(keys_text(report_of({{"a"}, {"a"}})) ==
        "SERVER                USES  ACCEPTS\n"
        "metadata server       a     a\n"
        "data server 1 (ds-1)  a     a\n"
        "\n"
        "key a: used by 2, accepted by 2 of 2 servers\n");
  const std::string changing = keys_text(report_of({{"b", "a"}, {"a", "b"}, {}}));
  CHECK(changing.contains("data server 2 (ds-2)  -     not known: it is not connected\n"));
  CHECK(
      changing.contains("key b: used by 1, accepted by 2 of 3 servers; not to be used yet, "
                        "not to be dropped yet\n"));
  CHECK(changing.contains("\ntargets (weft-target) are not asked"));
}

TEST_CASE("key status: the document says it in fields, too", "[weft]") {
  const auto document = keys_json(report_of({{"b", "a"}, {"b", "a"}}));
  CHECK(document["servers"].size() == 2);
  CHECK(document["servers"][0]["keys"] == nlohmann::ordered_json{"b", "a"});
  CHECK(document["keys"][1]["key"] == "a");
  CHECK(document["keys"][1]["used"] == 0);
  CHECK(document["keys"][1]["may_be_dropped"] == true);
  CHECK(document["keys"][0]["may_be_dropped"] == false);
}

}  // namespace weft::cli
