// docs/man/weft-ds.toml.5.scd says what dataserver/main/config.cc has.
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "dataserver/main/config.h"
#include "tests/dataserver/process/manual_fields.h"

namespace weft::ds {
namespace {

constexpr const char* kPage = "weft-ds.toml.5.scd";

TEST_CASE("the manual has every key of weft-ds, its default and its range") {
  DsConfig fresh;
  DsConfig probed;
  check_manual(kPage, config_fields(fresh), config_fields(probed));
}

TEST_CASE("what the manual says is required is, and nothing else") {
  struct Needed {
    std::string table, line;
  };
  const std::vector<std::pair<std::string, Needed>> needed = {
      {"cluster.key_file", {"cluster", "key_file = \"/k\""}},
      {"cluster.mds", {"cluster", "mds = \"192.0.2.1:20480\""}},
      {"server.listen", {"server", "listen = \"192.0.2.7:2051\""}},
      {"store.path", {"store", "path = \"/srv\""}},
  };
  const auto error_without = [&](std::string_view left_out) {
    std::string text;
    for (const std::string table : {"cluster", "server", "store"}) {
      text += "[" + table + "]\n";
      for (const auto& [key, one] : needed) {
        if (key != left_out && one.table == table) text += one.line + "\n";
      }
    }
    const auto checked = check_config(parse_config(text, "ds.toml").value(), false);
    return checked ? "" : checked.error().text;
  };
  CHECK(error_without("").empty());
  std::vector<std::string> said;
  for (const test::ManualKey& key : test::manual_keys(kPage)) {
    if (key.by_default == "required" && !key.name.starts_with("network.")) said.push_back(key.name);
  }
  std::ranges::sort(said);
  std::vector<std::string> named;
  for (const auto& [key, one] : needed) {
    named.push_back(key);
    CHECK(error_without(key) == key + " is not set");
  }
  CHECK(said == named);
}

}  // namespace
}  // namespace weft::ds
