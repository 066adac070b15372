#include "tools/weft/doctor/checks.h"

#include <catch2/catch_test_macros.hpp>
#include <set>
#include <sstream>

#include "tools/weft/table.h"

namespace weft::cli {

TEST_CASE("a machine that is fit has nothing to do", "[doctor]") {
  std::vector<Check> checks{
      check_clock(true),     check_congestion("cubic", true),
      check_limits(1 << 20), check_io_uring("0"),
      check_io_uring(""),    check_versions({{"weft", "1"}, {"weft-ds", "1"}})};
  for (const Check& check : check_folder({.path = "/srv/a",
                                          .file_system = "xfs",
                                          .syncs_per_second = 900,
                                          .free_bytes = 50,
                                          .capacity_bytes = 100,
                                          .metadata = true})) {
    checks.push_back(check);
  }
  for (const Check& check : checks) CHECK(check.found == Found::kGood);
  CHECK_FALSE(any_bad(checks));
  CHECK(checks_text(checks).find("\n      ") == std::string::npos);
}

TEST_CASE("the metadata store's disk is the one that the configuration names", "[doctor]") {
  using Folders = std::vector<std::string>;
  std::set<std::string> there{"/fast/mds", "/var/lib/weft", "/other"};
  const auto folders = [&](const Result<mds::CheckedConf>& conf) {
    return metadata_folders(conf, "/var/lib/weft",
                            [&](const std::string& path) { return there.contains(path); });
  };
  mds::CheckedConf conf;
  conf.stores["/fast/mds"];
  CHECK(folders(conf) == Folders{"/fast/mds"});
  conf.stores["/other/mds"];  // before its first start
  CHECK(folders(conf) == Folders{"/fast/mds", "/other"});
  conf.stores["/other/second"];
  CHECK(folders(conf) == Folders{"/fast/mds", "/other"});
  CHECK(folders(mds::CheckedConf()) == Folders{"/var/lib/weft"});
  CHECK(folders(fail(Errc::kInvalid, "wrong")) == Folders{"/var/lib/weft"});
  there.clear();
  CHECK(folders(conf).empty());
}

TEST_CASE("what is wrong says what to do", "[doctor]") {
  CHECK(check_congestion("bbr", true).found == Found::kBad);
  CHECK(check_congestion("bbr", false).found == Found::kNote);
  CHECK(check_limits(1024).found == Found::kBad);
  CHECK(check_clock(false).found == Found::kNote);
  CHECK(check_clock(false).to_do.contains("a restore chooses between copies by"));
  CHECK(check_io_uring("2").found == Found::kNote);
  CHECK(check_versions({{"weft", "1"}, {"d1", "2"}}).found == Found::kBad);
  const std::vector<Check> checks{check_congestion("bbr", true)};
  CHECK(checks_text(checks).starts_with("BAD   congestion control  bbr\n      sysctl -w "));
  std::istringstream lines(checks_text(checks));
  for (std::string line; std::getline(lines, line);) CHECK(columns(line) <= kScreenColumns);
  CHECK(any_bad(checks));
  CHECK(checks_json(checks)[0]["found"] == "bad");
}

TEST_CASE("a path between data servers that is broken is said with both ends", "[doctor]") {
  const mds::PathsReport report{
      {{.server = {1, "d1"},
        .tried = 2,
        .broken = {{{2, "d2"}, "[2001:db8::2]:2051", "no answer"}},
        .why = {}},
       {.server = {2, "d2"}, .tried = 2, .broken = {}, .why = {}},
       {.server = {5, "d5"},
        .tried = 2,
        .broken = {{{2, "d2"}, "192.0.2.2:2051", "MTU: segments of 9 bytes do not get through"}},
        .why = {}},
       {.server = {3, "d3"}, .broken = {}, .why = mds::kTooOldForPaths},
       {.server = {4, "d4"}, .broken = {}, .why = "it is not connected"}}};
  const auto checks = check_paths(report);
  REQUIRE(checks.size() == 5);
  CHECK(checks[0].found == Found::kBad);
  CHECK(checks[0].is == "from d1 to d2 [2001:db8::2]:2051: no answer");
  CHECK(checks[0].to_do.contains("pass TCP port 2051 from d1 to d2"));
  CHECK(checks[1].found == Found::kGood);
  CHECK(checks[1].is == "from d2 to other data servers");
  CHECK(checks[2].what == "MTU");
  CHECK(checks[2].found == Found::kBad);
  CHECK(checks[2].is == "from d5 to d2 192.0.2.2:2051: segments of 9 bytes do not get through");
  CHECK(checks[2].to_do.contains("one MTU"));
  CHECK(checks[3].found == Found::kNote);
  CHECK(checks[3].is.contains("too old"));
  CHECK(checks[3].to_do.contains("one version"));
  CHECK(checks[4].found == Found::kNote);
  CHECK(checks[4].to_do.contains("weft ds list"));
  // One alone has none to reach.
  CHECK(check_paths({{{.server = {1, "d1"}, .broken = {}, .why = {}}}}).empty());
}

TEST_CASE("disks that are slow, full, or without holes", "[doctor]") {
  const FolderFacts good{.path = "/a",
                         .file_system = "ext4",
                         .syncs_per_second = 900,
                         .free_bytes = 50,
                         .capacity_bytes = 100};
  const auto found = [](const FolderFacts& facts) {
    std::vector<Found> out;
    for (const Check& check : check_folder(facts)) out.push_back(check.found);
    return out;
  };
  using enum Found;
  CHECK(found(good) == std::vector{kGood, kGood, kGood});
  FolderFacts bad = good;
  bad.file_system = "btrfs";
  bad.syncs_per_second = 100;
  CHECK(found(bad) == std::vector{kNote, kGood, kGood});
  bad.metadata = true;
  CHECK(found(bad) == std::vector{kNote, kNote, kGood});
  bad.has_holes = false;
  bad.syncs_per_second = 1;
  bad.free_bytes = 4;
  CHECK(found(bad) == std::vector{kBad, kBad, kBad});
  // Nothing else is known of it then.
  bad.trouble = "nothing can be written there: No space left on device";
  REQUIRE(found(bad) == std::vector{kBad});
  CHECK(check_folder(bad).front().is == bad.trouble);
}

TEST_CASE("a path that takes less than this machine sends", "[doctor]") {
  CHECK(check_path({.to = "d1", .path = {"no answer", ""}}).front().found == Found::kBad);
  CHECK(check_path({.to = "d1", .path = {}}).size() == 1);
  const auto less = check_path({.to = "d1", .path = {"", "segments of 9 bytes"}});
  REQUIRE(less.size() == 2);
  CHECK(less[0].found == Found::kGood);
  CHECK(less[1].what == "MTU");
  CHECK(less[1].found == Found::kBad);
  CHECK(less[1].is == "d1: segments of 9 bytes");
}

TEST_CASE("texts of a data server's file", "[doctor]") {
  using Texts = std::vector<std::string>;
  const std::string file =
      "[store]\n path = \"/srv/a\" # not \"/srv/b\"\n# path = \"/none\"\n"
      "[cluster]\nmds = [\"192.0.2.1:1\", # \"192.0.2.3:1\"\n  \"192.0.2.2:1\",\n]\n"
      "[[network]]\nname = \"office\"\n";
  CHECK(toml_texts(file, "store.path") == Texts{"/srv/a"});
  CHECK(toml_texts(file, "cluster.mds") == Texts{"192.0.2.1:1", "192.0.2.2:1"});
  CHECK(toml_texts(file, "server.name").empty());
  CHECK(toml_texts(file, "name").empty());
  CHECK(toml_texts("", "store.path").empty());
  // However it is written.
  for (const char* same :
       {"[store]\npath=\"/srv/a\"", "store.path = '/srv/a'", "store = { path = \"/srv/a\" }",
        "[store]\n\"path\" = \"\"\"\n/srv/a\"\"\"", "[store]\npath = [\n'/srv/a'\n]"}) {
    CHECK(toml_texts(same, "store.path") == Texts{"/srv/a"});
  }
  for (const char* none : {"[store]\npath = \"open\n", "[store]\npath = 7", "store = \"/srv/a\"",
                           "[store.path]\na = \"/srv/a\"", "[store]\npath = \"/srv/\xc3\xa4\""}) {
    CHECK(toml_texts(none, "store.path").empty());
  }
}

TEST_CASE("servers that a client knows", "[doctor]") {
  const std::string file =
      "NV SERVER   PORT USE HOSTNAME\n"
      "v4 0a4d0001  801   2 10.77.0.1\n"
      "v4 0a4d000b  803   1 10.77.0.11\n"
      "v4 20010db8000000000000000000000001  801 1 ds\n"
      "v3 0a4d0002  801   1 old\nv4 xyz 801 1 a\nv4 0a4d0001\nv4\n";
  std::vector<std::string> out;
  for (const auto& address : nfs_servers(file)) out.push_back(to_string(address));
  CHECK(out == std::vector<std::string>{"10.77.0.1:2049", "10.77.0.11:2051", "[2001:db8::1]:2049"});
}

}  // namespace weft::cli
