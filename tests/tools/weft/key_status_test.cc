#include "tools/weft/key_status.h"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tools/weft/table.h"

namespace weft::cli {
namespace {

using mds::KeysReport;

KeysReport report_of(std::vector<std::vector<std::string>> keys) {
  KeysReport report{.servers = {}, .asks_targets = true};
  for (std::uint32_t id = 0; id < keys.size(); ++id) {
    report.servers.push_back({{id, id == 0 ? "" : "ds-" + std::to_string(id)}, keys[id], "", {}});
    if (keys[id].empty()) report.servers.back().why = "it is not connected";
  }
  return report;
}

// Of the last server.
KeysReport with_targets(KeysReport report, const std::vector<std::vector<std::string>>& keys) {
  for (const auto& of : keys) {
    const std::size_t number = report.servers.back().targets.size();
    report.servers.back().targets.push_back(
        {.address = "tcp:t" + std::to_string(number) + ":9640",
         .keys = of,
         .why = of.empty() ? "it is of a version that does not tell; its log does" : ""});
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

TEST_CASE("key status: targets count as servers do") {
  const KeysReport added = report_of({{"a", "b"}, {"a", "b"}});
  CHECK_FALSE(may_be_used(with_targets(added, {{"a"}}), "b"));
  CHECK_FALSE(may_be_used(with_targets(added, {{"a", "b"}, {}}), "b"));
  CHECK(may_be_used(with_targets(added, {{"a", "b"}, {"a", "b"}}), "b"));
  const KeysReport used = report_of({{"b", "a"}, {"b", "a"}});
  CHECK_FALSE(may_be_dropped(with_targets(used, {{"a", "b"}}), "a"));
  CHECK_FALSE(may_be_dropped(with_targets(used, {{}}), "a"));
  CHECK(may_be_dropped(with_targets(used, {{"b", "a"}}), "a"));
}

TEST_CASE("key status: where targets are not asked, no key may be used or dropped") {
  KeysReport added = report_of({{"a", "b"}, {"a", "b"}});
  added.asks_targets = false;
  CHECK_FALSE(may_be_used(added, "b"));
  KeysReport used = report_of({{"b", "a"}, {"b", "a"}});
  used.asks_targets = false;
  CHECK_FALSE(may_be_dropped(used, "a"));
  CHECK(keys_text(used).contains("\ntargets (weft-target) are not asked"));
}

TEST_CASE("key status: a line for each target, behind its data server's, and what to do") {
  const std::string text = keys_text(with_targets(report_of({{"a", "b"}, {"a", "b"}}), {{"a"}}));
  CHECK(text ==
        "SERVER                USES  ALSO ACCEPTS\n"
        "metadata server       a     b\n"
        "data server 1 (ds-1)  a     b\n"
        "  target tcp:t0:9640  a\n"
        "\n"
        "key a: used by 3, accepted by 3 of 3 servers and targets\n"
        "key b: used by 0, accepted by 2 of 3 servers and targets; not to be used yet,\n"
        "       may be dropped\n");
  const std::string unknown = keys_text(with_targets(report_of({{"a", "b"}, {"a", "b"}}), {{}}));
  CHECK(
      unknown.contains("\n  target tcp:t0:9640  -     not known\n\ntarget tcp:t0:9640: not known: "
                       "it is of a version "
                       "that does not tell; its log\ndoes\n"));
  CHECK(unknown.contains("\nas long as the keys of one are not known"));
  KeysReport older = report_of({{"a"}, {"a"}});
  older.servers[1].targets.push_back({.address = "", .keys = {}, .why = "its data server: no"});
  CHECK(keys_text(older).contains("\ntargets, if it has some: not known: its data server: no\n"));
}

TEST_CASE("key status: a line for each server, and for each key what may be done", "[weft]") {
  CHECK(keys_text(report_of({{"a"}, {"a"}})) ==
        "SERVER                USES  ALSO ACCEPTS\n"
        "metadata server       a\n"
        "data server 1 (ds-1)  a\n"
        "\n"
        "key a: used by 2, accepted by 2 of 2 servers\n");
  const std::string changing = keys_text(report_of({{"b", "a"}, {"a", "b"}, {}}));
  CHECK(changing.contains("\ndata server 2 (ds-2): not known: it is not connected\n"));
  CHECK(changing.contains(
      "key b: used by 1, accepted by 2 of 3 servers; not to be used yet, not to be\n"
      "       dropped yet\n"));
  CHECK(changing.contains("\nas long as the keys of one are not known"));
}

TEST_CASE("key status: lines stay within a screen") {
  const std::string old(16, '7');
  const std::string fresh(16, '5');
  KeysReport report = report_of({{fresh, old}, {old, fresh}, {}});
  report.servers.back().server.name = std::string(200, 'n');
  report.servers.back().why = std::string(60, 'w') + " " + std::string(60, 'y');
  for (const std::vector<std::string>& keys : {std::vector{old, fresh}, {}}) {
    report.servers[1].targets.push_back(
        {.address = "rdma://[2001:db8:1111:2222:3333:4444:5555:66]:9640",
         .keys = keys,
         .why = "it is of a version that does not tell"});
  }
  for (const bool asks : {true, false}) {
    report.asks_targets = asks;
    std::istringstream lines(keys_text(report));
    for (std::string line; std::getline(lines, line);) {
      INFO(line);
      // What is no word of ours is not cut.
      if (!line.contains("nnnn") || !line.contains(':')) CHECK(columns(line) <= kScreenColumns);
    }
  }
  CHECK(keys_text(report).contains("  " + old + "  " + fresh + "\n"));
}

TEST_CASE("key status: the document says it in fields, too", "[weft]") {
  const auto document = keys_json(report_of({{"b", "a"}, {"b", "a"}}));
  CHECK(document["servers"].size() == 2);
  CHECK(document["servers"][0]["keys"] == nlohmann::ordered_json{"b", "a"});
  CHECK(document["keys"][1]["key"] == "a");
  CHECK(document["keys"][1]["used"] == 0);
  CHECK(document["keys"][1]["may_be_dropped"] == true);
  CHECK(document["keys"][0]["may_be_dropped"] == false);
  CHECK(document["servers"][1]["targets"].empty());
  const auto target = keys_json(with_targets(report_of({{"a"}, {"a"}}), {{"a"}, {}}));
  CHECK(target["servers"][1]["targets"][0]["address"] == "tcp:t0:9640");
  CHECK(target["servers"][1]["targets"][0]["keys"] == nlohmann::ordered_json{"a"});
  CHECK(target["servers"][1]["targets"][1]["why"].get<std::string>().contains("version"));
}

}  // namespace weft::cli
