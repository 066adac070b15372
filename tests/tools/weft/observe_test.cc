#include "tools/weft/observe.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "tools/weft/df.h"
#include "tools/weft/report.h"
#include "tools/weft/table.h"
#include "tools/weft/top.h"

namespace weft::cli {
namespace {

constexpr std::uint64_t kGib = std::uint64_t{1} << 30;

mds::DataServerReport server(std::uint32_t id, const std::string& domain, std::uint64_t free_gib) {
  mds::DataServerReport report;
  report.id = id;
  report.name = "ds" + std::to_string(id);
  report.failure_domain = domain;
  report.state = mds::DsState::kUp;
  report.capacity_bytes = 100 * kGib;
  report.free_bytes = free_gib * kGib;
  return report;
}

// A system in which everything is wrong that a report can tell of.
mds::SystemReport sick() {
  mds::SystemReport system;
  for (const auto state : {mds::DsState::kSuspect, mds::DsState::kDown, mds::DsState::kUnknown}) {
    system.data_servers.push_back(server(static_cast<std::uint32_t>(state), "r", 1));
    system.data_servers.back().state = state;
  }
  mds::DataServerReport& bad = system.data_servers.front();
  bad.stale_objects = 1;
  bad.repair_waits = "no room";
  bad.duty = "draining";
  bad.stuck = {{1, "no place"}};
  bad.trouble = "Input/output error";
  bad.not_accepted = "an older store";
  mds::StatusReport& status = system.status;
  status.oldest_recall_ms = 6000;
  status.layout_errors = 1;
  status.strays = 1;
  status.foreign_objects = 1;
  status.restored_damaged = 1;
  status.restored_unchecked = 1;
  status.store.failed = true;
  status.store.full = true;
  status.refused = {{"192.0.2.9:1", "", "no key", 1, 1}, {"192.0.2.9:1", "x", "other", 1, 1}};
  status.warnings = {"too few domains", "one name", "no record", "too many",
                     "a lease",         "grace",    "new",       "old"};
  status.warning_codes = {"PLACEMENT",   "DS_NAMESAKES", "CLIENTS_REFUSED", "CLIENTS_WAIT",
                          "LEASE_SHORT", "GRACE_SHORT",  "OF_TOMORROW"};
  status.scrub.unlisted = 1;
  status.scrub.findings = {{.mended = true}};
  status.scrub.groups = {
      {.lost = 1, .awaited = 1, .given_up = 1, .state = rpc::control::GroupState::kDegraded}};
  return system;
}

void narrow(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    CHECK(columns(line) <= 80);
  }
}

}  // namespace

TEST_CASE("every problem has a code that is listed, and every code is of a problem", "[weft]") {
  std::set<std::string_view> listed;
  for (const HealthCode& code : health_codes()) CHECK(listed.insert(code.code).second);
  std::set<std::string_view> told{"NO_DATA_SERVERS"};
  for (const Problem& problem : health(sick())) told.insert(problem.code);
  CHECK(told == listed);
  REQUIRE(health({}).size() == 1);
  CHECK(health({}).front().code == "NO_DATA_SERVERS");
  CHECK(problems(sick()).size() == health(sick()).size());
  CHECK(health(sick()).back().code == "WARNING");
}

TEST_CASE("a parity group without a target, or with one that is rebuilt, is no healthy one") {
  using rpc::control::GroupState;
  mds::SystemReport system;
  system.data_servers = {server(1, "", 50)};
  const auto problem = [&](GroupState state, std::uint32_t rebuilt_permille = 0) {
    system.status.scrub.groups = {
        {.server = {1, "ds1"}, .state = state, .rebuilt_permille = rebuilt_permille}};
    const auto found = health(system);
    return found.empty() ? "" : fmt::format("{} {}", found.front().code, found.front().text);
  };
  CHECK(problem(GroupState::kNone).empty());
  CHECK(problem(GroupState::kWhole).empty());
  CHECK(problem(GroupState::kStarting).empty());  // it says itself what it waits for
  CHECK(problem(GroupState::kDegraded)
            .starts_with("GROUP_DEGRADED the parity group of data server 1 (ds1) is degraded: a "));
  CHECK(problem(GroupState::kRebuilding, 405)
            .starts_with("GROUP_DEGRADED the parity group of data server 1 (ds1) rebuilds a "
                         "target, 40 % so far. "));
  CHECK_FALSE(is_note("GROUP_DEGRADED"));
  // A metadata server of before has no state: what a data server says for people is all there is.
  system.data_servers.front().store = "parity, degraded";
  CHECK(problem(GroupState::kWhole).empty());
  const std::string degraded = problem(GroupState::kNone);
  CHECK(degraded.starts_with("GROUP_DEGRADED the parity group of data server 1 (ds1) is"));
  system.status.scrub.groups.clear();
  REQUIRE(health(system).size() == 1);
  CHECK(health(system).front().code == "GROUP_DEGRADED");
}

TEST_CASE("of a restored store nobody is told to remove what nothing names") {
  mds::SystemReport system;
  system.data_servers = {server(1, "", 50)};
  system.status.strays = 7;
  REQUIRE(health(system).size() == 1);
  CHECK(health(system).front().text.contains("weft audit start removes them"));
  system.status.restored = true;
  REQUIRE(health(system).size() == 1);
  const std::string text = health(system).front().text;
  CHECK(health(system).front().code == "STRAYS");
  CHECK_FALSE(text.contains("remove-strays"));
  CHECK_FALSE(text.contains("audit start"));
  CHECK(text.contains("all that is left of files made since the backup"));
  CHECK(text.contains("weft audit status"));
}

TEST_CASE("whatever is wrong, and with whatever names, is told in 80 columns", "[weft]") {
  mds::SystemReport system = sick();
  system.status.warnings = {"every data server is in the failure domain " + std::string(48, 'd') +
                            ": the loss of one machine loses all copies of everything there is"};
  for (mds::DataServerReport& server : system.data_servers) {
    server.name = std::string(17, 'n') + std::to_string(server.id);
    server.failure_domain = std::string(47, 'd') + std::to_string(server.id);
    server.not_accepted = server.trouble = "a reason that goes on and on, word for word for word";
    server.stuck = {{123'456'789, "a reason that goes on and on, word for word for word",
                     std::vector<std::uint64_t>(100, 18'446'744'073'709'551'615U)}};
  }
  system.status.repair = {.stale_objects = 123'456'789, .resynced = 123'456'789};
  narrow(status_text(system));
  narrow(health_text(health(system), {}));
  narrow(data_servers_text(system.data_servers));
  narrow(space_text(space_of(system.data_servers)));
  narrow(status_text({}));  // idle
  CHECK(health_text(health(system), {}).contains("\n  Data server nnnnnnnnnnnnnnnnn1 (id 1) is"));
}

TEST_CASE("a hundred servers with the longest names are told in 80 columns", "[weft]") {
  mds::SystemReport before;
  for (std::uint32_t id = 1; id <= 100; ++id) {
    mds::DataServerReport one = server(id, std::string(256, 'd') + std::to_string(id), id);
    one.name = std::string(256, 'n') + std::to_string(id);
    one.state = id % 2 == 0 ? mds::DsState::kUp : mds::DsState::kDown;
    one.version = "10.20.30";
    one.addresses = {"[2001:db8:1111:2222:3333:4444:5555:6666]:65535"};
    before.data_servers.push_back(one);
  }
  mds::SystemReport after = before;
  for (mds::DataServerReport& one : after.data_servers) {
    one.read_bytes = one.written_bytes = std::uint64_t{1} << 50;
    one.read_calls = one.write_calls = std::uint64_t{1} << 40;
  }
  narrow(status_text(after));
  narrow(health_text(health(after), {}));
  narrow(data_servers_text(after.data_servers));
  narrow(space_text(space_of(after.data_servers)));
  CHECK(data_servers_text(after.data_servers).contains("6666]:65535\n"));
  narrow(rates_text(rates_between(before, after, 0.1)));
}

// Of files, and of data servers, that were made after a restore.
TEST_CASE("numbers of many digits are told whole, in 80 columns") {
  constexpr std::uint64_t kFile = 12'345'678'901'234;
  constexpr std::uint32_t kServer = 16'777'215;
  constexpr std::uint64_t kMuch = (std::uint64_t{1} << 40) - 1;
  mds::SystemReport system = sick();
  system.data_servers.push_back(server(kServer, "rack", 50));
  mds::DataServerReport& mended = system.data_servers.back();
  mended.repairs = {
      {"compare", kFile, kServer - 1, kMuch, kMuch, kMuch, kMuch, 7'000'000, 7'000'000}};
  mended.duty = "draining";
  mended.stuck = {{2, "no place", {kFile, kFile + 1}}};
  const std::string servers = data_servers_text(system.data_servers);
  narrow(servers);
  CHECK(servers.contains("16777215  compare  12345678901234  16777214    116 min\n"));
  CHECK(servers.contains("16777215  12345678901234  1.00 TiB  1.00 TiB  1.00 TiB  1.00 TiB/s\n"));
  narrow(status_text(system));
  narrow(health_text(health(system), {}));
  const std::string file = std::to_string(kFile);
  const mds::RestoredReport restored{
      .restored = true,
      .made_ns = 1,
      .restored_ns = 2,
      .unchecked = kFile,
      .damaged = 3,
      .grown = kFile,
      .files = {{kFile, "/a folder/and its file", 12, 34}, {kFile + 1, "", 12, 34}}};
  narrow(restored_text(restored));
  CHECK(
      restored_text(restored).contains("fileid " + file + ": /a folder/and its file: 12 objects"));
  mds::MaintenanceReport maintenance{.action = "audit-status"};
  maintenance.audit = {.rounds = 1,
                       .age_ms = kMuch,
                       .servers = kServer,
                       .objects = kFile,
                       .strays = kFile,
                       .removed = kFile,
                       .foreign = kFile,
                       .bytes = kMuch,
                       .found = {{{kServer, std::string(256, 'n')},
                                  "1.00000b3a73ce2ff2.ffffffff",
                                  kMuch,
                                  "foreign"}},
                       .failures = {{{kServer, "ds"}, "a reason that goes on and on and on"}}};
  narrow(maintenance_text(maintenance));
  CHECK(maintenance_text(maintenance).contains("1.00000b3a73ce2ff2.ffffffff"));
}

TEST_CASE("what scrubs found is told in 80 columns", "[weft]") {
  constexpr std::uint64_t kFile = 12'345'678'901'234;
  constexpr std::uint32_t kServer = 16'777'215;
  const mds::ExtentReport extent{kFile, kFile};
  mds::ScrubReport scrub{.rounds = 1};
  scrub.findings = {{.fileid = kFile,
                     .ds_id = kServer,
                     .source = kServer - 1,
                     .differing_bytes = kFile,
                     .extents = {extent, extent, extent}},
                    {.fileid = kFile, .mended = true}};
  scrub.unlisted = kFile;
  scrub.resolved = {"a reason that goes on and on, word for word, for longer than a line is wide"};
  scrub.crowded = kFile;
  scrub.crowded_fileids = std::vector<std::uint64_t>(100, kFile);
  scrub.groups = {{.server = {kServer, std::string(256, 'n')}}};
  narrow(scrub_text(scrub));
  CHECK(scrub_text(scrub).contains("\nweft scrub resolve FILE --from DS\n"));
  scrub.running = scrub.only_tell = true;
  scrub.groups.front().running = scrub.groups.front().waiting = true;
  narrow(scrub_text(scrub));
  narrow(scrub_text({.groups = scrub.groups}));
}

TEST_CASE("networks with long addresses are told in 80 columns, ranges and addresses apart") {
  mds::DataServerReport one = server(16'777'215, "rack", 50);
  one.networks = {{std::string(40, 'n'),
                   {"rdma://[2001:db8:1111:2222:3333:4444:5555:6666]:20049", "10.0.0.112:2049"},
                   {"2001:db8:1111:2222:3333:4444:5555:0/112"}},
                  {"office", {"10.1.0.112:2049"}, {}}};
  const std::string text = data_servers_text({one});
  narrow(text);
  CHECK(text.contains("  2001:db8:1111:2222:3333:4444:5555:0/112\n"));
  CHECK(text.contains("  rdma://[2001:db8:1111:2222:3333:4444:5555:6666]:20049\n"));
  CHECK(text.contains("  10.0.0.112:2049\n"));
  one.networks.front().addresses.erase(one.networks.front().addresses.begin());
  one.networks.front().clients = {"10.0.0.0/8"};
  narrow(data_servers_text({one}));
  CHECK(data_servers_text({one}).contains("  10.0.0.0/8  10.0.0.112:2049\n"));
}

TEST_CASE("data servers of whose columns each is as wide as it can be fit 80 columns") {
  mds::DataServerReport one = server(16'777'215, std::string(40, 'd'), 50);
  one.state = mds::DsState::kSuspect;
  one.heartbeat_age_ms = one.uptime_ms = 119 * 60'000;
  one.free_bytes = one.capacity_bytes = 9 * kGib;
  one.stale_objects = one.errors = 999'999;
  one.version = "10.20.30";
  one.store = one.proxy = "shared memory";
  one.partners = {{1, "none"}, {2, "rdma"}, {3, "tcp"}};
  one.addresses = {"[2001:db8::123]:2051"};
  const std::string text = data_servers_text({one});
  narrow(text);
  CHECK(text.contains(" suspect  119 min  119 min  "));
  CHECK(text.contains("\n16777215  [2001:db8::123]:2051\n"));  // no room for it beside the rest
}

TEST_CASE("a system that is being drained is healthy", "[weft]") {
  CHECK(is_note("DS_LEAVING"));
  CHECK_FALSE(is_note("DS_DOWN"));
  CHECK_FALSE(is_note("NONE"));
}

TEST_CASE("codes are muted and unmuted by their names only", "[weft]") {
  char folder[] = "/tmp/weft-observe-test.XXXXXX";
  REQUIRE(::mkdtemp(folder) != nullptr);
  const std::string file = std::string(folder) + "/muted";
  const auto text = [&file] {
    std::ostringstream out;
    out << std::ifstream(file).rdbuf();
    return out.str();
  };
  const Settings nobody{.socket = std::string(folder) + "/none"};
  // Nobody can be asked, and what was said is kept.
  CHECK(health_command(nobody, {.mute = {"STRAYS", "DS_DOWN"}, .unmute = {}, .muted = file}) ==
        kExitFailed);
  CHECK(text() == "DS_DOWN\nSTRAYS\n");
  CHECK(health_command(nobody, {.mute = {"DS_DWON"}, .unmute = {}, .muted = file}) == kExitFailed);
  CHECK(health_command(nobody, {.mute = {}, .unmute = {"STRAYS"}, .muted = file}) == kExitFailed);
  CHECK(text() == "DS_DOWN\n");
  std::filesystem::remove_all(folder);
}

TEST_CASE("room is told by domain, and for copies at different data servers", "[weft]") {
  auto down = server(4, "rack2", 90);
  down.state = mds::DsState::kDown;
  auto drained = server(5, "rack2", 90);
  drained.duty = "draining";
  const SpaceReport space = space_of(
      {server(1, "rack1", 50), server(2, "rack1", 30), server(3, "rack2", 40), down, drained});
  REQUIRE(space.domains.size() == 2);
  CHECK(space.domains[0].free_bytes == 80 * kGib);
  CHECK(space.domains[1].servers == 1);
  CHECK(space.domains[1].away == 2);
  CHECK(space.copies[0].free_bytes == 120 * kGib);
  CHECK(space.copies[1].free_bytes == 60 * kGib);
  CHECK(space.copies[1].apart_bytes == 40 * kGib);
  CHECK(space.copies[1].capacity_bytes == 150 * kGib);
  CHECK(space.copies[2].capacity_bytes == 100 * kGib);
  CHECK(space_text(space) == R"(DOMAIN  SERVERS  AWAY      FREE       OF
rack1         2     0  80.0 GiB  200 GiB
rack2         1     2  40.0 GiB  100 GiB

COPIES  ROOM FOR       OF
     1   120 GiB  300 GiB
     2  60.0 GiB  150 GiB
     3  30.0 GiB  100 GiB

with 2 copies, each in another failure domain: room for 40.0 GiB
with 3 copies, each in another failure domain: no room

2 data servers are away or being left, and are not counted
)");
  CHECK(space_json(space)["by_copies"][1]["free_bytes"] == 60 * kGib);
  CHECK(space_text(space_of({server(1, "", 50)})).contains("\n     2         -  too few data"));
  const SpaceReport sound = space_of({server(1, "rack1", 50), server(2, "rack2", 30)});
  CHECK_FALSE(space_text(sound).contains("each in another failure domain"));
  CHECK(space_text(space_of({})) == "no data server has registered\n");
}

TEST_CASE("rates are between two reports, also over a restart", "[weft]") {
  mds::SystemReport before;
  before.status.layoutgets = 10;
  before.data_servers = {server(1, "", 1), server(2, "", 1)};
  before.data_servers[0].read_bytes = 1 << 20;
  before.data_servers[1].written_bytes = 500;
  mds::SystemReport after = before;
  after.status.layoutgets = 30;
  after.data_servers[0].read_bytes = 5 << 20;
  after.data_servers[1].written_bytes = 40;  // started anew
  after.data_servers.push_back(server(3, "", 1));
  after.data_servers[2].read_bytes = 1000;  // new
  const Rates rates = rates_between(before, after, 2);
  CHECK(rates.layouts == 10);
  CHECK(rates.servers[0].read_bytes == 2 << 20);
  CHECK(rates.servers[1].written_bytes == 20);
  CHECK(rates.servers[2].read_bytes == 0);
  const std::string text = rates_text(rates);
  CHECK(text.find("2.00 MiB/s") != std::string::npos);
  narrow(text);
  CHECK(rates_json(rates)["data_servers"].size() == 3);
}

TEST_CASE("rates of much, and of servers with long names, fit a terminal") {
  mds::SystemReport before;
  before.data_servers = {server(123, "", 1), server(124, "", 1)};
  for (mds::DataServerReport& one : before.data_servers) {
    one.name = "store-number-" + std::to_string(one.id);
    one.state = mds::DsState::kSuspect;
    one.cpu_busy_permille = 1000;
  }
  mds::SystemReport after = before;
  for (mds::DataServerReport& one : after.data_servers) {
    one.read_bytes = one.written_bytes = 9 << 20;
    one.read_calls = one.write_calls = one.errors = 123'456'789;
  }
  after.status.layoutgets = after.status.mds_read_calls = after.status.mds_write_calls = 1'234'567;
  after.status.store.commits = after.status.layouts_out = 1'234'567;
  const std::string text = rates_text(rates_between(before, after, 1));
  narrow(text);
  CHECK(text.contains("124  sto…124  suspect  100%  9.00 MiB/s  9.00 MiB/s    123 M     123 M "));
}

TEST_CASE("what may be a key or a token goes into no bundle", "[weft]") {
  const std::string key(64, 'a');
  const std::string token = "0123456789abcdef0123456789ABCDEF";
  CHECK(without_secrets("key " + key + "\n" + token) == "key (left out)\n(left out)");
  CHECK(without_secrets("2c1f fedcba9876543210 beef") == "2c1f fedcba9876543210 beef");
  CHECK(without_secrets("7b1d0c52-0000-4000-8000-0123456789ab") ==
        "7b1d0c52-0000-4000-8000-0123456789ab");
  CHECK(without_secrets("").empty());
}

}  // namespace weft::cli
