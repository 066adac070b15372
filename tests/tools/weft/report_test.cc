#include "tools/weft/report.h"

#include <catch2/catch_test_macros.hpp>

namespace weft::cli {
namespace {

mds::DataServerReport server(std::uint32_t id, mds::DsState state) {
  mds::DataServerReport report;
  report.id = id;
  report.name = "ds" + std::to_string(id);
  report.state = state;
  report.addresses = {"192.0.2." + std::to_string(id) + ":2051"};
  report.heartbeat_age_ms = 400;
  report.capacity_bytes = std::uint64_t{100} << 30;
  report.free_bytes = std::uint64_t{50} << 30;
  return report;
}

mds::SystemReport healthy() {
  mds::SystemReport system;
  system.status.version = "0.1.0";
  system.status.uptime_ms = 90'000;
  system.data_servers = {server(1, mds::DsState::kUp), server(2, mds::DsState::kUp)};
  return system;
}

}  // namespace

TEST_CASE("a healthy system has no problems", "[weft]") {
  CHECK(problems(healthy()).empty());
  const std::string text = status_text(healthy());
  CHECK(text.find("data servers     2 up\n") != std::string::npos);
  CHECK(text.find("raw space        100 GiB free of 200 GiB\n") != std::string::npos);
  CHECK(text.ends_with("problems         none\n"));
}

TEST_CASE("status explains dead, new and full data servers", "[weft]") {
  mds::SystemReport system = healthy();
  system.data_servers[0].state = mds::DsState::kDown;
  system.data_servers[0].heartbeat_age_ms = 45'000;
  system.data_servers[1].free_bytes = std::uint64_t{1} << 30;
  system.data_servers.push_back(server(3, mds::DsState::kUnknown));
  system.status.warnings = {"The clock went back."};
  const auto found = problems(system);
  REQUIRE(found.size() == 4);
  CHECK(found[0].starts_with("Data server ds1 (id 1) is down: its last heartbeat came 45.0 s ago"));
  CHECK(found[1].starts_with("Data server ds2 (id 2) is nearly full: 1.00 GiB of 100 GiB are "));
  CHECK(found[2].find("has not been heard of") != std::string::npos);
  CHECK(found[3] == "The clock went back.");
  CHECK(status_text(system).find("1 up, 1 down, 1 unknown") != std::string::npos);
}

TEST_CASE("space that is not there is not counted", "[weft]") {
  mds::SystemReport system = healthy();
  system.data_servers[1].state = mds::DsState::kDown;
  CHECK(status_text(system).contains(
      "raw space        50.0 GiB free of 100 GiB, 1 data servers not counted (weft df)\n"));
}

TEST_CASE("status explains what an empty system and slow recalls mean", "[weft]") {
  mds::SystemReport system;
  system.status.recalls_pending = 2;
  system.status.oldest_recall_ms = 12'000;
  const auto found = problems(system);
  REQUIRE(found.size() == 2);
  CHECK(found[0].starts_with("No data server has registered"));
  CHECK(found[1].starts_with("2 layout recalls have no answer, the oldest for 12.0 s."));
}

TEST_CASE("status explains what servers have told of", "[weft]") {
  mds::SystemReport system = healthy();
  mds::DataServerReport& server = system.data_servers[1];
  server.trouble = "Input/output error";
  server.stale_objects = 12;
  server.repair_waits = "no space";
  mds::StatusReport& status = system.status;
  status.layout_errors = 3;
  status.layout_error_age_ms = 2 * 60 * 1000;
  status.store = {.failed = true, .failure = "no disk", .full = true, .free_bytes = 5 << 20};
  status.store.floor_bytes = 64 << 20;
  status.foreign_objects = 6;
  status.strays = 7;
  const auto found = problems(system);
  REQUIRE(found.size() == 8);
  CHECK(found[0].starts_with("Data server ds2 (id 2) has stopped serving: Input/output error. "));
  CHECK(found[1].starts_with("Data server ds2 (id 2) lacks writes of 12 files: "));
  CHECK(found[2] == "Data server ds2 (id 2) waits with its repair: no space.");
  CHECK(found[3].starts_with("Clients reported 3 errors at data servers, the last 2 min 0 s ago."));
  CHECK(found[4] == "The metadata store has failed, and ganesha.nfsd ends: no disk.");
  CHECK(
      found[5].starts_with("The metadata store is full: 5 MiB of its file system are free, and "
                           "64 MiB are kept free."));
  CHECK(found[6].starts_with("Data servers have 6 objects of files that were never made here: "));
  CHECK(found[7].starts_with("Data servers have 7 objects that no file needs: "));
}

TEST_CASE("errors that clients reported are a problem for a quarter of an hour", "[weft]") {
  mds::SystemReport system = healthy();
  system.status.layout_errors = 1;
  CHECK(problems(system).size() == 1);  // of a metadata server that does not tell when
  system.status.layout_error_age_ms = 15 * 60 * 1000 - 1;
  CHECK(problems(system).size() == 1);
  system.status.layout_error_age_ms += 1;
  CHECK(problems(system).empty());
}

TEST_CASE("status tells of data servers that are not let in") {
  mds::SystemReport system;
  system.status.refused = {
      {"192.0.2.7", "", "authentication failed: the peer does not have our cluster key", 12, 900},
      {"192.0.2.8", "ds4", "its store is another system's", 1, 61'000}};
  const auto found = problems(system);
  REQUIRE(found.size() == 2);
  CHECK(found[0] ==
        "Somebody at 192.0.2.7 connects as a data server and does not register (12 times, the last "
        "900 ms ago): authentication failed: the peer does not have our cluster key. If that is "
        "one, compare its key file and its version with this server's.");
  CHECK(found[1] ==
        "A data server ds4 at 192.0.2.8 is refused (1 times, the last 1 min 1 s ago): its store is "
        "another system's.");
  CHECK(status_json(system)["refused"][1]["name"] == "ds4");
  // Of one that is listed the list says it.
  system.data_servers = {server(4, mds::DsState::kDown)};
  system.data_servers[0].not_accepted = "it is alive at another address";
  CHECK(problems(system).size() == 3);
}

TEST_CASE("status counts clients and says how long grace lasts", "[weft]") {
  mds::SystemReport system = healthy();
  system.status.clients = 3;
  CHECK(status_text(system).find("clients          3\n") != std::string::npos);
  CHECK(status_text(system).find("grace") == std::string::npos);
  system.status.grace_left_ms = 7'000;
  CHECK(status_text(system).find("in grace for 7.0 s at most\n") != std::string::npos);
  CHECK(status_json(system)["clients"] == 3);
  CHECK(status_json(system)["grace_left_ms"] == 7'000);
}

TEST_CASE("the table of data servers shows nothing of those never heard of", "[weft]") {
  const std::string text =
      data_servers_text({server(1, mds::DsState::kUp), server(2, mds::DsState::kUnknown)});
  const auto row_of = [&text](const char* name) {
    const std::size_t at = text.find(name);
    return at == std::string::npos ? "" : text.substr(at, text.find('\n', at) - at);
  };
  CHECK(row_of("ds1").find("400 ms") != std::string::npos);
  CHECK(row_of("ds2").find("unknown") != std::string::npos);
  CHECK(row_of("ds2").find("ms") == std::string::npos);
  CHECK(data_servers_text({}) == "no data server has registered\n");
}

TEST_CASE("the tables of data servers fit a terminal, and tell domains and versions") {
  auto one = server(12, mds::DsState::kSuspect);
  one.failure_domain = "rack-12";
  one.version = "0.1.0";
  one.heartbeat_age_ms = 4 * 60'000 + 26'000;
  one.uptime_ms = 12 * 86'400'000ULL;
  one.capacity_bytes = 123'456ULL << 30;
  one.free_bytes = one.capacity_bytes - (5ULL << 30);
  one.addresses = {"192.0.2.112:2049"};
  one.networks = {{"storage", {"rdma://10.0.0.112:20049", "10.0.0.112:2049"}, {"10.0.0.0/8"}},
                  {"office", {"[2001:db8::112]:2049"}, {"2001:db8::/32", "192.0.2.0/24"}}};
  one.store = "shared memory";
  one.proxy = "shared memory";
  one.partners = {{1, "rdma"}, {2, "tcp"}};
  const std::string text = data_servers_text({one, server(2, mds::DsState::kDown)});
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    end = text.find('\n', begin);
    INFO(text.substr(begin, end - begin));
    CHECK(end - begin <= 80);
  }
  CHECK(text.find("rack-12") != std::string::npos);
  CHECK(text.find("0.1.0") != std::string::npos);
  CHECK(text.contains("2001:db8::/32"));
  CHECK(text.find("DISK SPARE/S") != std::string::npos);  // what is left, not what is done
  CHECK(data_servers_json({one})[0]["failure_domain"] == "rack-12");
  CHECK(data_servers_json({one})[0]["version"] == "0.1.0");
}

TEST_CASE("it is told how what goes through the metadata server goes on", "[weft]") {
  mds::SystemReport system = healthy();
  system.data_servers.push_back(server(3, mds::DsState::kUp));
  CHECK(status_text(system).find("through it") == std::string::npos);  // nothing went
  CHECK(data_servers_text(system.data_servers).find("PROXY") != std::string::npos);
  CHECK(status_json(system)["data_servers"][0]["proxy"] == "none");
  system.data_servers[0].proxy = system.data_servers[2].proxy = "shared memory";
  system.data_servers[1].proxy = "tcp";
  system.data_servers[2].proxy_shared_bytes = 77;
  CHECK(status_text(system).find("through it       shared memory to 1, 3; tcp to 2\n") !=
        std::string::npos);
  system.data_servers[2].proxy = "rdma";
  CHECK(status_text(system).contains("through it       shared memory to 1; rdma to 3; tcp to 2\n"));
  system.data_servers[2].proxy = "shared memory";
  CHECK(data_servers_text(system.data_servers).find("shared memory") != std::string::npos);
  const auto document = status_json(system);
  CHECK(document["data_servers"][1]["proxy"] == "tcp");
  CHECK(document["data_servers"][2]["proxy_shared_memory_bytes"] == 77);
}

TEST_CASE("it is told how data servers reach their partners and targets") {
  mds::SystemReport system = healthy();
  system.data_servers.push_back(server(3, mds::DsState::kUp));
  CHECK_FALSE(status_text(system).contains("to partners"));  // none is connected to any
  CHECK_FALSE(status_text(system).contains("to targets"));
  auto& servers = system.data_servers;
  servers[0].partners = {{2, "rdma"}, {3, "rdma"}};
  servers[1].partners = {{1, "rdma"}, {3, "tcp"}, {4, "tcp"}};
  servers[2].targets = {{"tcp:disks1:9640", "none"}};
  CHECK(status_text(system).contains("to partners      rdma from 1, 2; tcp from 2\n"));
  CHECK(status_text(system).contains("to targets       none from 3\n"));
  const std::string text = data_servers_text(servers);
  CHECK(text.contains("PARTNERS"));
  CHECK(text.contains(" rdma           192.0.2.1:2051"));
  CHECK(text.contains(" rdma 1, tcp 2  192.0.2.2:2051"));
  CHECK(text.contains(" -              192.0.2.3:2051"));
  const auto document = status_json(system);
  CHECK(document["data_servers"][1]["partners"][1]["id"] == 3);
  CHECK(document["data_servers"][1]["partners"][1]["transport"] == "tcp");
  CHECK(document["data_servers"][2]["targets"][0]["address"] == "tcp:disks1:9640");
  CHECK(document["data_servers"][2]["targets"][0]["transport"] == "none");
}

TEST_CASE("what is being repaired is shown, and what is still to be", "[weft]") {
  auto mended = server(2, mds::DsState::kUp);
  mended.stale_objects = 12;
  mended.repairs = {{"resync", 77, 1, 8 << 20, 4 << 20, 1 << 20, 2 << 20, 2000, 2000}};
  const std::string text = data_servers_text({server(1, mds::DsState::kUp), mended});
  CHECK(text.find("STALE") != std::string::npos);
  CHECK(text.find("resync") != std::string::npos);
  CHECK(text.find("2.00 MiB/s") != std::string::npos);
  CHECK(data_servers_text({server(1, mds::DsState::kUp)}).find("REMAINING") == std::string::npos);
  const auto document = data_servers_json({mended});
  CHECK(document[0]["stale_objects"] == 12);
  CHECK(document[0]["repairs"][0]["kind"] == "resync");
  CHECK(document[0]["repairs"][0]["remaining_ms"] == 2000);
  mds::SystemReport system = healthy();
  system.status.repair.stale_objects = 5;
  CHECK(status_text(system).find("5 objects stale") != std::string::npos);
  CHECK(status_json(system)["stale_objects"] == 5);
}

TEST_CASE("a file's report says that it is inline, and if it is not for long", "[weft]") {
  mds::FileReport file;
  file.layout_type = "inline";
  file.inline_bytes = 700;
  CHECK(
      file_text(file).contains("inline, 700 bytes in the metadata store: as safe as that, whatever "
                               "copies the policy says\n"));
  file.stripes = {{2, "ds2", mds::DsState::kUp}};
  CHECK(
      file_text(file).contains("700 bytes in the metadata store, on their way to data servers\n"));
}

TEST_CASE("status tells what memory is spent on", "[weft]") {
  mds::SystemReport system = healthy();
  system.status.layouts_out = 7;
  system.status.memory = {.resident = 300 << 20,
                          .cache = 12 << 20,
                          .cache_pinned = 4096,
                          .cache_most = 256 << 20,
                          .opens = 5,
                          .files = 3,
                          .file_each = 2048,
                          .layout_each = 240};
  CHECK(status_text(system).contains(
      "memory           300 MiB, the store's cache 12.0 MiB of 256 MiB\n"
      "                 5 opens, 3 files at 2.00 KiB, 7 layouts at 240 B\n"));
  CHECK(status_json(system)["memory"]["store_cache_pinned_bytes"] == 4096);
}

TEST_CASE("status tells what the metadata store has of files", "[weft]") {
  mds::SystemReport system = healthy();
  system.status.inlined = {.files = 12, .bytes = 4096, .reads = 3, .writes = 5, .grown = 7};
  CHECK(status_text(system).contains(
      "inline files     about 12 in 4.00 KiB, 3 READ (0 B), 5 WRITE (0 B), 7 grown\n"));
  system.status.inlined.busy = true;
  CHECK(status_text(system).contains(
      "7 grown; the\n                 store is busy: new files are not\n"));
}

TEST_CASE("a file's report names stripes and who holds its layout", "[weft]") {
  mds::FileReport file;
  file.path = "/weft/evil\nname";
  file.layout_type = "files";
  file.stripe_unit = 1 << 20;
  file.stripes = {{2, "ds2", mds::DsState::kUp}, {1, "ds1", mds::DsState::kDown}};
  std::string text = file_text(file);
  CHECK(text.find("evil\\x0aname") != std::string::npos);
  CHECK(text.find("files, 2 stripes of 1.00 MiB") != std::string::npos);
  CHECK(text.find("no client holds a layout") != std::string::npos);
  file.grants = {{0xabc, "192.0.2.9", true, 1500, true, 300}};
  text = file_text(file);
  CHECK(text.find("read-write") != std::string::npos);
  CHECK(text.find("0000000000000abc") != std::string::npos);
  CHECK(text.find("300 ms ago") != std::string::npos);
  CHECK(text.find("COPY IS") == std::string::npos);
  file.stripes[1].copies = {{1, "ds1", mds::DsState::kDown, "stale", false},
                            {3, "ds3", mds::DsState::kUp, "current", true}};
  CHECK(file_text(file).find("stale") != std::string::npos);
  file.stripes[1].copies[0].repair = "waits: its data server is away";
  CHECK(file_text(file).contains("repair of stripe 1 at 1: waits: its data server is away\n"));
  CHECK(text.find("TOLD BY") == std::string::npos);
  file.io = {{2, "ds2", 3, 4096, 0, 0, 1}};
  CHECK(file_text(file).find("TOLD BY CLIENTS OF") != std::string::npos);
  CHECK(file_text(file).find("4.00 KiB") != std::string::npos);
  const auto document = to_json(file);
  CHECK(document["io"][0]["read_bytes"] == 4096);
  CHECK(document["stripes"][1]["ds_state"] == "down");
  CHECK(document["stripes"][1]["copies"][1]["leads"] == true);
  CHECK(document["stripes"][1]["copies"][0]["repair"] == "waits: its data server is away");
  CHECK(document["grants"][0]["client_id"] == 0xabc);
}

TEST_CASE("numbers of a policy are numbers in JSON", "[weft]") {
  const mds::PolicyReport report{.path = "/weft/a",
                                 .directory = true,
                                 .own = "unit=64KiB",
                                 .rows = {{"stripes", "all", "export"},
                                          {"unit", "64KiB", "/weft/a"},
                                          {"copies", "2", "export"},
                                          {"first", "9223372036854775807", "export"}}};
  const Json json = policy_json(report);
  CHECK(json["own"] == "unit=64KiB");
  CHECK(json["effective"][0]["value"] == "all");
  CHECK(json["effective"][1] == Json{{"key", "unit"}, {"value", 65536}, {"from", "/weft/a"}});
  CHECK(json["effective"][2]["value"] == 2);
  CHECK(json["effective"][3]["value"] == INT64_MAX);
}

TEST_CASE("JSON has the whole status", "[weft]") {
  mds::SystemReport system = healthy();
  system.status.mds_read_calls = 7;
  const auto document = status_json(system);
  CHECK(document["mds_read_calls"] == 7);
  CHECK(document["data_servers"][0]["addresses"][0] == "192.0.2.1:2051");
  CHECK(document["data_servers"][0]["state"] == "up");
  CHECK(document["problems"].empty());
}

}  // namespace weft::cli
