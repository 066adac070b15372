#include "ganesha-fsal/admin/protocol.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

namespace weft::mds::admin {
namespace {

FileReport some_file() {
  FileReport file;
  file.path = "/export/a b";
  file.fileid = 26;
  file.size = std::uint64_t{1} << 40;
  file.object = "1.000000000000001a.1";
  file.layout_type = "files";
  file.stripe_unit = 1 << 20;
  file.policy = "stripes=2 unit=1MiB copies=1";
  file.device_id = "00112233445566778899aabbccddeeff";
  file.stripes = {{1, "ds1", DsState::kUp}, {2, "ds2", DsState::kDown}};
  file.stripes[1].why = "turn";
  file.stripes[1].copies = {{2, "ds2", DsState::kDown, "stale", false},
                            {4, "ds4", DsState::kUp, "current", true}};
  file.stripes[1].copies[0].repair = "waits: its data server is away";
  file.skipped = {3, "disk"};
  file.moving = {1, 2, true};
  file.io = {{2, "ds2", 1, 2, 3, 4, 5}};
  file.grants = {{7, "192.0.2.1", true, 1200, true, 300}};
  return file;
}

SystemReport some_system() {
  SystemReport system;
  StatusReport& status = system.status;
  status.version = "1.2.3";
  status.mds_read_calls = 5;
  status.removals_queued = 77;
  status.repair = {1, 2, 3, 4, 5, 6, 7, 8};
  status.scrub.findings = {{26, 1, 2, 4, 4096, {{0, 4096}}, true, false}};
  status.scrub.groups = {{.server = {3, "ds3"},
                          .only_tell = true,
                          .wrong = 4,
                          .given_up = 5,
                          .state = rpc::control::GroupState::kRebuilding,
                          .rebuilt_permille = 6}};
  status.rebalance = {true, 5, 6, 0.25, 0.5};
  status.store = {true, "no disk", true, 7, 8, 9, 10, true, 11, 12};
  status.inlined = {1, 2, 3, 4, 5, 6, 7, true};
  status.strays = 13;
  status.refused = {{"192.0.2.7", "ds4", "no", 14, 15}};
  status.warnings = {"one", "two"};
  system.data_servers.resize(3);
  DataServerReport& server = system.data_servers[2];
  server.id = 3;
  server.state = DsState::kSuspect;
  server.failure_domain = "rack";
  server.version = "0.9";
  server.addresses = {"127.0.0.1:2053", "192.0.2.4:2053"};
  server.proxy_shared_bytes = 88;
  server.disk_available = 99;
  server.repairs = {{"scrub", 5, 1, 100, 50, 20, 10, 9, 8}};
  server.duty = "draining";
  server.repair_waits = "no space";
  server.trouble = "no store";
  server.stuck = {{12, "no room"}};
  return system;
}

MaintenanceReport some_maintenance() {
  MaintenanceReport report{.action = "audit-status"};
  report.server = {3, "ds3"};
  report.objects_left = 4;
  report.target = 5;
  report.fileid = 6;
  report.was_running = true;
  report.groups = {{{7, "ds7"}, "no answer"}};
  report.plan = {0.25, 0.125, false, {{1, 2, 3, 4}}};
  report.audit.emplace();
  report.audit->found = {{{8, "ds8"}, "1.000000000000001a.1", 9, "left"}};
  report.audit->failures = {{{9, ""}, "away"}};
  return report;
}

// What comes back is what was sent, all of it.
template <class Report>
void check_round_trip(const Report& report) {
  const std::string line = reply_line(report);
  CHECK(line.find('\n') == line.size() - 1);
  const auto back = read_reply<Report>(line);
  REQUIRE(back);
  CHECK(reply_line(*back) == line);
}

template <class R>
void check_request(const R& request) {
  const std::string line = request_line(request);
  auto read = read_request(line);
  REQUIRE(read);
  CHECK(read->name == R::kName);
  auto back = from_json<R>(read->message, "request");
  REQUIRE(back);
  CHECK(request_line(*back) == line);
}

}  // namespace

TEST_CASE("requests go over the wire unchanged", "[admin]") {
  check_request(GetStatus{});
  check_request(GetFile{"/export/\xff\n\""});
  check_request(SetPolicy{"/export/d", "copies=2"});
  check_request(GiveUp{"3", 2});
  check_request(Rebalance{7, true});
  CHECK(request_line(GetFile{"/export/f"}) ==
        R"({"weft_admin":14,"request":"file","path":"/export/f"})"
        "\n");
}

TEST_CASE("malformed requests are refused", "[admin]") {
  const std::string good = request_line(GetFile{"/export/f"});
  for (std::size_t size = 0; size + 1 < good.size(); ++size) {
    CHECK(read_request(good.substr(0, size)).error() == Errc::kProtocol);
  }
  CHECK(read_request(good + good).error() == Errc::kProtocol);
  CHECK(read_request("[10]").error() == Errc::kProtocol);
  CHECK(read_request(R"({"weft_admin":14})").error() == Errc::kProtocol);
  CHECK(read_request(R"({"weft_admin":14,"request":5})").error() == Errc::kProtocol);
  const auto refused = [](const auto& request) {
    using R = std::remove_cvref_t<decltype(request)>;
    const auto read = read_request(request_line(request));
    return from_json<R>(read->message, "request").error() == Errc::kProtocol;
  };
  CHECK(refused(GetFile{std::string("/a\0b", 4)}));
  CHECK(refused(SetPolicy{"/a", std::string("a\0b", 3)}));
  CHECK(refused(GetFile{std::string(kMaxPathBytes + 1, 'x')}));
  CHECK(refused(SetPolicy{"/a", std::string(kMaxTextBytes + 1, 'x')}));
}

TEST_CASE("a table refuses what it has no handler for", "[admin]") {
  Table table;
  table.on<GetPolicy>([](const GetPolicy& request) { return PolicyReport{.path = request.path}; });
  CHECK(table.ask(GetPolicy{"/d"})->path == "/d");
  CHECK(table.serve("policy", {{"path", "/d"}})->at("path") == "/d");
  CHECK(table.serve("policy", {{"paths", "/d"}}).error() == Errc::kProtocol);
  CHECK(table.serve("fly", Json::object()).error() == Errc::kNotSupported);
  CHECK_FALSE(table.changes("policy"));
  CHECK_FALSE(table.changes("fly"));
}

TEST_CASE("the longest request fits, also if it is no text", "[admin]") {
  const SetPolicy longest{std::string(kMaxPathBytes, '\xff'), std::string(kMaxTextBytes, '\xff')};
  CHECK(request_line(longest).size() <= kMaxRequestBytes);
  check_request(longest);
}

TEST_CASE("another version is told from nonsense, with what to do", "[admin]") {
  const std::string line = GENERATE(R"({"weft_admin":15})", R"({"weft_admin":12})",
                                    R"({"weft_admin":-13})", R"({"weft_admin":"14","reply":{}})");
  const auto read = read_request(line);
  CHECK(read.error() == Errc::kNotSupported);
  CHECK(read.error().text.contains("install the same version"));
  CHECK(read_reply<PolicyReport>(line).error() == Errc::kNotSupported);
}

TEST_CASE("the version before is understood, and answered in its own", "[admin]") {
  const auto read = read_request(request_line(GetFile{"/export/f"}, kLeastVersion));
  REQUIRE(read);
  CHECK(read->version == kLeastVersion);
  CHECK(from_json<GetFile>(read->message, "request")->path == "/export/f");
  CHECK(read_request(request_line(GetStatus{}))->version == kVersion);
  const std::string line = error_line({Errc::kNotSupported, "another version"}, kLeastVersion);
  CHECK(line.starts_with(R"({"weft_admin":13,)"));
  CHECK(other_version(line) == kLeastVersion);
  CHECK(other_version(line, kLeastVersion) == std::nullopt);
  CHECK(other_version(error_line({Errc::kNotFound, "f"})) == std::nullopt);
  CHECK(other_version(R"({"weft_admin":12,"reply":{}})") == std::nullopt);
  // What it does not have in its reports is as if it were nothing.
  const std::string older = R"({"weft_admin":13,"reply":{"lease_ms":10,"count":1,"clients":[)"
                            R"({"id":7,"address":"a","owner":"b","minor_version":2,"opens":3,)"
                            R"("layouts_reading":1,"layouts_writing":2,"recalls_pending":0,)"
                            R"("oldest_recall_ms":0}]}})";
  const auto clients = read_reply<ClientsReport>(older);
  REQUIRE(clients);
  CHECK(clients->clients.at(0).opens == 3);
  CHECK(clients->clients.at(0).read_bytes == 0);
  // But what both have has to be there.
  CHECK(
      read_reply<ClientsReport>(R"({"weft_admin":13,"reply":{"lease_ms":10,"count":1}})").error() ==
      Errc::kProtocol);
}

TEST_CASE("a backup's checkpoint has no id where one side is of the version before", "[admin]") {
  const auto end = read_request(R"({"weft_admin":13,"request":"backup-end"})");
  REQUIRE(end);
  CHECK(from_json<EndBackup>(end->message, "request")->checkpoint.empty());
  const auto begun = read_reply<CheckpointReport>(
      R"({"weft_admin":13,"reply":{"folder":"/f","system":"s","version":"1","boot_epoch":2,)"
      R"("made_ns":3,"key":"k"}})");
  REQUIRE(begun);
  CHECK(begun->folder == "/f");
  CHECK(begun->id.empty());
  CHECK(begun->store_keeps_bytes == 0);
  const auto told = read_request(request_line(EndBackup{"1.2"}));
  REQUIRE(told);
  CHECK(from_json<EndBackup>(told->message, "request")->checkpoint == "1.2");
}

TEST_CASE("reports go over the wire unchanged", "[admin]") {
  check_round_trip(some_file());
  check_round_trip(some_system());
  check_round_trip(DataServersReport{some_system().data_servers});
  check_round_trip(some_maintenance());
  const PolicyReport policy{
      "/export/d", true, "copies=2", {{"copies", "2", "/export/d"}, {"unit", "1MiB", "export"}}};
  CHECK(read_reply<PolicyReport>(reply_line(policy)).value() == policy);

  const auto file = read_reply<FileReport>(reply_line(some_file())).value();
  CHECK(file.stripes[1].ds_state == DsState::kDown);
  CHECK(file.stripes[1].copies[0].repair == "waits: its data server is away");
  CHECK(file.grants[0].recall_age_ms == 300);
  CHECK(file.skipped->short_of == "disk");
  CHECK(file.moving->left);
  CHECK(file.io == some_file().io);
  const auto system = read_reply<SystemReport>(reply_line(some_system())).value();
  CHECK(system.status.repair.moved == 8);
  CHECK(system.status.store.compaction_bytes == 10);
  CHECK(system.status.store.failure == "no disk");
  CHECK(system.status.inlined.grown == 7);
  CHECK(system.status.strays == 13);
  CHECK(system.data_servers[2].repair_waits == "no space");
  CHECK(system.data_servers[2].trouble == "no store");
  CHECK(system.status.scrub.findings[0].extents[0].length == 4096);
  CHECK(system.data_servers[2].repairs[0].remaining_ms == 8);
}

TEST_CASE("a status has the names that scripts read", "[admin]") {
  const Json status = to_json(some_system());
  CHECK(status["stale_objects"] == 1);
  CHECK(status["resynced_objects"] == 2);
  CHECK(status["compared_objects"] == 3);
  CHECK(status["repair_failures"] == 4);
  CHECK(status["repair_copied_bytes"] == 7);
  CHECK(status["moved_objects"] == 8);
  CHECK(status["scrub"]["findings"][0]["ds"] == 2);
  CHECK(status["scrub"]["findings"][0]["from"] == 4);
  CHECK(status["scrub"]["groups"][0]["server"]["name"] == "ds3");
  CHECK(status["scrub"]["groups"][0]["wrong"] == 4);
  CHECK(status["rebalance"]["running"] == true);
  CHECK(status["rebalance"]["spread_before"] == 0.5);
  CHECK_FALSE(to_json(SystemReport{}).contains("rebalance"));
  CHECK(status["data_servers"][2]["stuck"][0]["objects"] == 12);
  CHECK(status["store"]["failed"] == true);
  CHECK(status["inline"]["written_bytes"] == 6);
  const Json& server = status["data_servers"][2];
  CHECK(server["state"] == "suspect");
  CHECK(server["proxy_shared_memory_bytes"] == 88);
  CHECK(server["disk_available_bytes_per_second"] == 99);
  CHECK(server["net_available_bytes_per_second"] == 0);
  const PolicyReport policy{"/d", true, "", {{"copies", "2", "export"}}};
  CHECK(to_json(policy)["effective"][0]["from"] == "export");
}

TEST_CASE("errors keep their code and text", "[admin]") {
  auto read = read_reply<StatusReport>(error_line(Error{Errc::kNotFound, "/export/\xff"}));
  REQUIRE_FALSE(read);
  CHECK(read.error() == Errc::kNotFound);
  CHECK(read.error().text == "/export/\xff");
}

TEST_CASE("cut or altered replies are refused or read as something bounded", "[admin]") {
  const std::string good = reply_line(some_file());
  for (std::size_t size = 0; size + 1 < good.size(); ++size) {
    CHECK_FALSE(read_reply<FileReport>(good.substr(0, size)));
  }
  std::string altered = good;
  for (char& byte : altered) {
    const char before = byte;
    byte = static_cast<char>(byte ^ 0x11);
    (void)read_reply<FileReport>(altered);
    byte = before;
  }
}

TEST_CASE("reports over the limits are cut, and still read", "[admin]") {
  FileReport file = some_file();
  file.path.assign(10'000, 'x');
  file.grants.resize(10'000);
  auto read = read_reply<FileReport>(reply_line(file));
  REQUIRE(read);
  CHECK(read->path.size() == 4096);
  CHECK(read->grants.size() == 4096);
  StatusReport status;
  status.warnings.assign(1000, "w");
  CHECK(read_reply<StatusReport>(reply_line(status)).value().warnings.size() == kShortList);
}

}  // namespace weft::mds::admin
