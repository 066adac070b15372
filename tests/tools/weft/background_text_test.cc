#include "tools/weft/background_text.h"

#include <catch2/catch_test_macros.hpp>

#include "tools/weft/report.h"

namespace weft::cli {

TEST_CASE("people are told how far the scrub of a parity group is", "[weft]") {
  mds::GroupReport group{.server = {3, "ds-a"}};
  CHECK(group_text(group) == "data server 3 (ds-a): not gone through yet");
  group.running = true;
  group.permille = 125;
  group.bytes = 9 << 20;
  group.wrong = 2;
  const std::string found =
      "; 9 MiB read, 2 wrong and written anew, 0 lost, 0 could not be looked at";
  CHECK(group_text(group) == "data server 3 (ds-a): 12 %" + found);
  group.remaining_s = 7199;
  CHECK(group_text(group) == "data server 3 (ds-a): 12 %, 119 min left" + found);
  group.waiting = true;
  CHECK(group_text(group) ==
        "data server 3 (ds-a): 12 %, waiting for the group to be whole" + found);
  group.running = false;
  group.only_tell = true;
  group.ended_s_ago = 119;
  group.lost = 3;
  group.failed = 4;
  CHECK(group_text(group) ==
        "data server 3 (ds-a): ended 119 s ago; 9 MiB read, 2 wrong, 3 lost, 4 could not be "
        "looked at");
  group.ended_s_ago = 7200;
  CHECK(group_text(group).contains("ended 2 h ago"));
  mds::ScrubReport scrub;
  scrub.groups = {{.server = {4, "a\nb"}}};
  CHECK(scrub_text(scrub).contains("parity groups\n  - data server 4 (a\\x0ab): not gone "));
}

TEST_CASE("people are told of files whose copies share a failure domain", "[weft]") {
  mds::ScrubReport scrub{.rounds = 1};
  CHECK_FALSE(scrub_text(scrub).contains("failure domain"));
  scrub.crowded = 2;
  scrub.crowded_fileids = {12, 15};
  CHECK(scrub_text(scrub).ends_with(
      "\ntwo copies in one failure domain\n  - 2 files: fileid 12, 15\n"));
  scrub.crowded = 9;
  CHECK(scrub_text(scrub).ends_with(": fileid 12, 15 and 7 more\n"));
  scrub.crowded_fileids.clear();
  CHECK(scrub_text(scrub).ends_with("  - 9 files, of which none is named any more\n"));
}

TEST_CASE("people are told what to do about scrubs and parity groups", "[weft]") {
  const auto told = [](const mds::ScrubReport& scrub) {
    mds::SystemReport system;
    system.data_servers.emplace_back().state = mds::DsState::kUp;
    system.status.scrub = scrub;
    return problems(system);
  };
  CHECK(told({}).empty());
  CHECK(told({.groups = {{.server = {3, "ds-a"}, .wrong = 2}}}).empty());
  mds::ScrubReport scrub;
  scrub.unlisted = 5;
  scrub.findings.resize(3);
  scrub.findings[1].mended = true;
  scrub.groups = {{.server = {3, "ds-a"}, .lost = 8, .awaited = 0b10, .may_give_up = true},
                  {.server = {4, "ds-b"}, .awaited = 0b101, .given_up = 9}};
  const auto lines = told(scrub);
  REQUIRE(lines.size() == 6);
  CHECK(lines[0].starts_with("7 copies of files differ, and nothing was changed. "));
  CHECK(lines[1] ==
        "the parity group of data server 3 (ds-a) waits for target 1 and serves nothing: start "
        "it; if it is lost for ever: weft ds give-up 3 1");
  CHECK(lines[2].starts_with("the parity group of data server 3 (ds-a) has 8 blocks that "));
  CHECK(lines[3] ==
        "the parity group of data server 4 (ds-b) waits for target 0, 2 and serves nothing: start "
        "it");
  CHECK(lines[4].starts_with("the parity group of data server 4 (ds-b) has given up 9 blocks "));
  CHECK(lines[5].starts_with("scrubs found 1 copies that were damaged, "));
  mds::SystemReport system;
  system.status.scrub = scrub;
  CHECK(status_json(system)["problems"].size() == 7);  // and that there is no data server
}

TEST_CASE("people are told what moves", "[weft]") {
  mds::RebalanceReport rebalance{true, 12, 34 << 20, 0.05, 0.25};
  CHECK(rebalance_text(rebalance) ==
        "running, 12 objects, 34 MiB moved or being moved, 5.0 % apart, 25.0 % before");
  rebalance.running = false;
  CHECK(rebalance_text(rebalance).starts_with("ended, 12 objects, "));
  mds::SystemReport system;
  CHECK_FALSE(status_text(system).contains("\nrebalance "));
  system.status.rebalance = rebalance;
  CHECK(status_text(system).contains("\nrebalance        ended, 12 objects, "));

  mds::DataServerReport server{.id = 3, .duty = "draining", .stuck = {{7, "no room"}}};
  CHECK(
      data_servers_text({server}).contains("data server 3: cannot be moved: 7 objects: no room\n"));
  server.stuck.front().fileids = {12, 15};
  CHECK(data_servers_text({server}).contains(
      "data server 3: cannot be moved: 7 objects: no room; fileid 12, 15 and 5 more\n"));
  CHECK(to_json(server)["stuck"][0]["fileids"] == Json::array({12, 15}));
  server.stuck.front().objects = 2;
  CHECK(data_servers_text({server}).contains("no room; fileid 12, 15\n"));
  server.stuck.front().objects = 7;
  system.data_servers = {server};
  CHECK(status_text(system).contains("cannot be left: 7 objects: no room."));

  mds::FileReport file;
  CHECK_FALSE(file_text(file).contains("moving"));
  CHECK_FALSE(file_text(file).contains("left out"));
  CHECK_FALSE(to_json(file).contains("moving"));
  file.moving = {1, 2, false};
  file.skipped = {4, "disk"};
  CHECK(file_text(file).contains("left out   the group of data server 4, short of disk\n"));
  CHECK(file_text(file).contains(
      "moving     data server 2 is being filled to take the place of 1\n"));
  file.moving->left = true;
  CHECK(file_text(file).contains(
      "moving     data server 1 has left; its object there is to be removed\n"));
}

}  // namespace weft::cli
