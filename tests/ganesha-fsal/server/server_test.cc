// The metadata server as a whole: how it starts, ends and starts again, and what it says of itself.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "ganesha-fsal/server/admin_reports.h"
#include "rpc/base/process_clock.h"
#include "tests/ganesha-fsal/files/file_io_fixture.h"
#include "tests/ganesha-fsal/server/server_fixture.h"

namespace weft::mds {
namespace {

using layout::Access;

// With data servers of which only the control side is there.
struct Assembled : ServerTest {
  Assembled() {
    start();
    connect(2);
  }
  ~Assembled() {
    servers.clear();
    stop();
  }
  void connect(std::uint8_t count) {
    for (std::uint8_t id = 1; id <= count; ++id) {
      servers.push_back(std::make_unique<FakeServer>(id, port()));
      await_up(id);
    }
  }
  FileId put(std::string_view name) {
    const FileId made = file(kRootFileId, name);
    REQUIRE(grant(made, 5, Access::kReadWrite));
    for (const auto& one : servers) one->hold(made, 100);
    server->layouts().returned(made, 5, Access::kReadWrite);
    return made;
  }
  bool has(std::size_t at, FileId file) {
    const std::lock_guard lock(servers[at]->mutex);
    return servers[at]->sizes.contains(file);
  }
  std::vector<std::unique_ptr<FakeServer>> servers;
};

Error start_error(ServerTest& test) {
  auto started = MetadataServer::start(test.options, test.environment(), test.store);
  REQUIRE_FALSE(started);
  return started.error();
}

}  // namespace

TEST_CASE_METHOD(ServerTest, "server: an option that is wrong is named in the error") {
  const ServerOptions right = options;
  std::string name;
  SECTION("no key file") {
    name = "Key_File is missing";
    options.key_file = "";
  }
  SECTION("a key file that is not there") {
    name = "Key_File: ";
    options.key_file = folder.path("absent");
  }
  SECTION("a key file that others may read") {
    name = "Key_File: ";
    std::filesystem::permissions(options.key_file, std::filesystem::perms::all);
  }
  SECTION("no address for data servers") {
    name = "Control_Address: ";
    options.control_address = "nowhere";
  }
  SECTION("no address for metrics") {
    name = "Metrics_Address: ";
    options.metrics_address = "nowhere";
  }
  SECTION("no address for the status page") {
    name = "Status_Address: ";
    options.status_address = "nowhere";
  }
  SECTION("an address for the status page that is not ours") {
    name = "Status_Address: invalid: page at 192.0.2.1:9: ";
    options.status_address = "192.0.2.1:9";
  }
  SECTION("a socket below what is no folder") {
    name = "Admin_Socket: ";
    options.admin_socket = options.key_file + "/socket";
  }
  const Error error = start_error(*this);
  CAPTURE(error.text);
  CHECK(error.text.starts_with(name));
  // Nothing is left of it in the way of one that is right.
  options = right;
  std::filesystem::permissions(options.key_file, std::filesystem::perms::owner_read);
  start();
  CHECK(names->getattr(kRootFileId));
}

TEST_CASE_METHOD(ServerTest, "server: whose the root directory is, is settled with its store") {
  options.shared_root = GENERATE(false, true);
  const std::uint32_t mode = options.shared_root ? 01777 : 0755;
  start();
  CHECK(names->getattr(kRootFileId)->mode == mode);
  stop();
  options.shared_root = !options.shared_root;
  start();
  CHECK(names->getattr(kRootFileId)->mode == mode);
}

TEST_CASE_METHOD(ServerTest, "server: an address that is taken, or a store that fails") {
  start();
  SECTION("the address") {
    MemoryKv other;
    auto second = MetadataServer::start(options, environment(), other);
    REQUIRE_FALSE(second);
    CHECK(second.error().text.starts_with("Control_Address: "));
  }
  SECTION("the store") {
    stop();
    store.fail_commits(Errc::kIo, 0, 1);
    const Error error = start_error(*this);
    CHECK(error.text.starts_with("Metadata_Path: "));
    CHECK(error == Errc::kIo);
  }
}

TEST_CASE_METHOD(Assembled, "server: clients are told with what they hold, the slowest first") {
  clients[5] = {.address = "192.0.2.5",
                .owner = "Linux NFSv4.2 a",
                .minor_version = 2,
                .opens = 3,
                .renewed = 12s};
  clients[6] = {.address = "", .owner = "b", .minor_version = 0};
  const FileId f = put("f");
  const FileId g = put("g");
  REQUIRE(grant(f, 5, Access::kRead));
  REQUIRE(grant(g, 6, Access::kReadWrite));
  REQUIRE(grant(g, 9, Access::kRead));  // its lease has ended
  const auto table = make_admin_table(*server);
  auto report = table.ask(admin::GetClients{});
  REQUIRE(report);
  REQUIRE(report->count == 2);
  CHECK(report->clients[0].id == 5);
  CHECK(report->clients[0].opens == 3);
  CHECK(report->clients[0].reading == 1);
  CHECK(report->clients[0].writing == 0);
  CHECK(report->clients[0].recalled == 0);
  CHECK(report->clients[0].renewed_ms == 12'000);
  server->traffic().wrote(5, 100);
  server->traffic().read(6, 7);
  server->traffic().read(9, 7);
  server->layouts().recall(g, "test");
  later = 4s;
  report = table.ask(admin::GetClients{});
  CHECK(report->clients[0].id == 6);
  CHECK(report->clients[0].writing == 1);
  CHECK(report->clients[0].recalled == 1);
  CHECK(report->clients[0].oldest_recall_ms >= 4000);
  CHECK(report->clients[0].reads == 1);
  CHECK(report->clients[0].read_bytes == 7);
  CHECK(report->clients[1].writes == 1);
  CHECK(report->clients[1].written_bytes == 100);
  CHECK(report->clients[1].oldest_recall_ms == 0);
}

TEST_CASE_METHOD(Assembled, "server: what is durable is there after a restart over the store") {
  const FileId f = put("f");
  const std::uint64_t epoch = names->superblock().boot_epoch;
  const std::uint64_t store_id = server->store_id();
  const std::uint32_t fsid = server->fsid();
  const auto map = names->layout(f);
  restart();
  CHECK(server->store_id() == store_id);
  CHECK(server->fsid() == fsid);
  CHECK(names->superblock().boot_epoch == epoch + 1);
  CHECK(**names->layout(f) == **map);
  // Data servers come back by themselves, and are who they were.
  await_up(1);
  await_up(2);
  CHECK(server->cluster().registry().list().size() == 2);
  CHECK(grant(f, 5, Access::kReadWrite));
  check_clean();
}

TEST_CASE_METHOD(Assembled, "server: nothing begins by itself before start_background()") {
  const FileId f = put("f");
  REQUIRE(names->remove(kSuperuser, kRootFileId, "f"));
  CHECK(has(0, f));
  CHECK(names->pending_removals(std::nullopt, 10)->size() == 1);
  server->start_background();
  CHECK(await_that([&] { return !has(0, f) && !has(1, f); }));
  CHECK(await_that([&] { return names->pending_removals(std::nullopt, 10)->empty(); }));
}

TEST_CASE_METHOD(Assembled, "server: time that passes ends the patience with a client") {
  const FileId f = file(kRootFileId, "f");
  REQUIRE(grant(f, 5, Access::kReadWrite));
  server->start_background();
  server->layouts().recall(f, "test");
  CHECK(server->layouts().known(f, 5));
  later = 61s;  // a lease, as no option says otherwise
  CHECK(await_that([&] { return !server->layouts().known(f, 5); }));
  CHECK(await_that([&] { return !server->layouts().blocked(f); }));
  CHECK(server->layouts().counters().revoked == 1);
}

TEST_CASE_METHOD(Assembled, "server: time in which it was stopped is nobody's delay") {
  stop();
  ProcessClock runs(clock);
  auto started = MetadataServer::start(options,
                                       {.clock = runs,
                                        .random = random,
                                        .grace_left = [] { return 0ms; },
                                        .clients = [this] { return clients; },
                                        .is_open = [](FileId, auto) { return false; },
                                        .recaller = recaller,
                                        .invalidate_attributes = [](FileId) {},
                                        .find_path = [this](auto path) { return find_path(path); }},
                                       store);
  REQUIRE(started);
  server = std::move(*started);
  names = &server->names();
  await_up(1);
  await_up(2);
  const FileId f = file(kRootFileId, "f");
  REQUIRE(grant(f, 5, Access::kReadWrite));
  server->layouts().recall(f, "test");
  {
    const Registry& registry = server->cluster().registry();
    const std::scoped_lock nothing_comes(servers[0]->mutex, servers[1]->mutex);
    REQUIRE(registry.reach(1) == Reach::kHere);
    later = 3600s;
    CHECK(registry.reach(1) == Reach::kHere);
    server->layouts().tick();
    CHECK(server->layouts().known(f, 5));
    for (int second = 0; second < 5; ++second) {
      later = later.load() + 1s;
      CHECK(registry.reach(2) == Reach::kHere);
    }
    for (int second = 0; second < 61; ++second) {
      later = later.load() + 1s;
      server->layouts().tick();
    }
    CHECK_FALSE(server->layouts().known(f, 5));
    CHECK(registry.reach(1) == Reach::kGone);
  }
  servers.clear();
  stop();
}

TEST_CASE_METHOD(Assembled, "server: orphans of the last run go when nobody can reclaim them") {
  const FileId f = put("f");
  REQUIRE(names->hold(f));
  REQUIRE(names->remove(kSuperuser, kRootFileId, "f"));
  grace = 90s;
  restart();
  await_up(1);
  await_up(2);
  server->start_background();
  CHECK(names->getattr(f));
  later = 151s;  // grace, and a lease
  CHECK(await_that([&] { return !names->getattr(f).has_value(); }));
  CHECK(await_that([&] { return !has(0, f) && !has(1, f); }));
}

TEST_CASE_METHOD(Assembled,
                 "server: what could not be removed when it was closed is removed later") {
  const FileId first = put("f");
  const FileId second = put("g");
  later = 151s;
  // The second, when those of the last run have been looked for.
  for (const FileId f : {first, second}) {
    REQUIRE(names->hold(f));
    REQUIRE(names->remove(kSuperuser, kRootFileId, f == first ? "f" : "g"));
    store.fail_commits(Errc::kNoSpace, 0, 1);
    server->release(f);
    CHECK(names->getattr(f));
    if (f == first) server->start_background();
    CHECK(await_that([&] { return !names->getattr(f).has_value(); }));
  }
}

TEST_CASE_METHOD(Assembled, "server: an unlinked file's layouts are recalled unless it is open") {
  const FileId f = file(kRootFileId, "f");
  REQUIRE(grant(f, 5, Access::kReadWrite));
  const bool open = GENERATE(false, true);
  if (open) opens.insert({f, 6});
  server->orphaned(f);
  const auto grants = server->layouts().grants_of(f);
  REQUIRE(grants.size() == 1);
  CHECK((grants[0].state == GrantState::kRecalled) == !open);
}

TEST_CASE_METHOD(Assembled, "server: a grant has the devices that its layout names") {
  const bool flexible = GENERATE(false, true);
  policy.type = flexible ? layout::LayoutType::kFlexFiles : layout::LayoutType::kFiles;
  policy.stripe_count = flexible ? 1 : 2;
  policy.copies = flexible ? 2 : 1;
  if (flexible) policy.duplication = layout::Duplication::kClientSync;
  const FileId f = file(kRootFileId, "f");
  REQUIRE(grant(f, 5, Access::kReadWrite));
  const auto grants = server->layouts().grants_of(f);
  REQUIRE(grants.size() == 1);
  CHECK(grants[0].devices.size() == (flexible ? 2 : 1));
  const Registry& registry = server->cluster().registry();
  for (const auto& device : grants[0].devices) {
    CHECK(device->members.size() == (flexible ? 1 : 2));
    layout::DeviceId id = registry.device_id(10, 1, *device);
    CHECK(server->data().device_body(id, policy.type, std::nullopt));
    id.number += 100;  // as of one that was forgotten
    CHECK(server->data().device_body(id, policy.type, std::nullopt).error() == Errc::kNotFound);
  }
}

TEST_CASE_METHOD(FileIoTest, "server: what is under way when it ends is answered") {
  REQUIRE(write(0, pattern(1000, 1)));
  server->start_background();
  hang(1);
  hang(2);
  const auto data = pattern(1000, 2);
  const std::span<const std::byte> bytes(data);
  std::atomic<int> answered = 0;
  std::shared_ptr<FileData::BegunRead> reading;
  std::shared_ptr<FileData::BegunWrite> writing;
  // Whoever is answered when the server ends lets go of it.
  reading = server->data()
                .begin_read(f, 0, 100,
                            [&] {
                              reading.reset();
                              ++answered;
                            })
                .value();
  writing =
      server->data()
          .begin_write(f, 0, ProxyIo::Pieces(&bytes, 1), ProxyIo::Stability::kUnstable, policy,
                       [&] {
                         writing.reset();
                         ++answered;
                       })
          .value();
  REQUIRE(reading->later);
  REQUIRE(writing->later);
  CHECK(answered == 0);
  stop();
  CHECK(answered == 2);
}

TEST_CASE_METHOD(Assembled, "server: it ends with grants out, repairs due and removals queued") {
  policy.copies = 2;
  policy.stripe_count = 1;
  const FileId f = put("f");
  const FileId g = put("g");
  REQUIRE(grant(f, 5, Access::kReadWrite));
  REQUIRE(server->mirrors().begin_write(f, no_layout));
  server->start_background();
  REQUIRE_FALSE(server->repairs().repairer().compare(f));
  REQUIRE(server->repairs().scrubber().begin(std::nullopt, true));
  REQUIRE(server->repairs().auditor().begin(true));
  REQUIRE(names->remove(kSuperuser, kRootFileId, "g"));
  restart();
  CHECK_FALSE(names->getattr(g));
  CHECK(server->journal().inherited(f));
  check_clean();
}

TEST_CASE_METHOD(Assembled, "server: status") {
  grace_left = 1500;
  clients = {{5, {.address = "192.0.2.5", .owner = "five", .opens = 3}},
             {6, {.address = "192.0.2.6", .owner = "six", .opens = 1}}};
  const FileId f = file(kRootFileId, "f");
  REQUIRE(grant(f, 5, Access::kReadWrite));
  server->layouts().recall(f, "test");
  server->count_layout_errors(3);
  later = 7s;
  server->count_layout_errors(0);
  const admin::Table reports = make_admin_table(*server);
  const auto system = reports.ask(admin::GetStatus{});
  REQUIRE(system);
  const StatusReport* status = &system->status;
  CHECK_FALSE(status->version.empty());
  CHECK(status->uptime_ms >= 7000);
  CHECK(status->grace_left_ms == 1500);
  CHECK(status->clients == 2);
  CHECK(status->inodes_made >= 2);
  CHECK(status->layoutgets == 1);
  CHECK(status->layouts_out == 1);
  CHECK(status->recalls_pending == 1);
  CHECK(status->oldest_recall_ms >= 7000);
  CHECK(status->layout_errors == 3);
  CHECK(status->layout_error_age_ms >= 7000);
  CHECK(status->warnings.empty());
  CHECK(status->memory.opens == 4);
  CHECK(status->memory.files == 1);
  CHECK(status->memory.file_each > 0);
  CHECK(status->memory.layout_each > 0);
  CHECK(status->memory.resident > 1 << 20);
}

TEST_CASE_METHOD(Assembled, "server: layouts are counted, however many are out") {
  constexpr FileId kMany = 100'001;
  for (FileId id = 1; id <= kMany; ++id) REQUIRE(server->layouts().grant(id, 5, Access::kRead));
  CHECK(make_admin_table(*server).ask(admin::GetStatus{}).value().status.layouts_out == kMany);
}

TEST_CASE_METHOD(Assembled, "server: what a path lacks is said with what there is") {
  const admin::Table reports = make_admin_table(*server);
  const auto none = reports.ask(admin::GetFile{"/"});
  REQUIRE_FALSE(none);
  CHECK(none.error().text == "/ is in no export of WEFT; there are: /export");
  const auto folder = reports.ask(admin::GetFile{"/export"});
  REQUIRE_FALSE(folder);
  CHECK(folder.error().text ==
        "/export is a directory, and layouts are of files: weft policy show /export says what "
        "those made there get");
}

TEST_CASE_METHOD(Assembled, "server: copies that cannot be apart are told before the first file") {
  const admin::Table reports = make_admin_table(*server);
  copies = {1};
  CHECK(reports.ask(admin::GetStatus{})->status.warnings.empty());
  copies = {1, 3};
  const auto warnings = reports.ask(admin::GetStatus{})->status.warnings;
  REQUIRE(warnings.size() == 2);
  CHECK(warnings[0] == "2 data servers cannot hold 3 copies.");
  CHECK(reports.ask(admin::GetStatus{})->status.warning_codes ==
        std::vector<std::string>{"PLACEMENT", "PLACEMENT"});
  CHECK(warnings[1].starts_with("Data servers that say no failure_domain"));
}

TEST_CASE_METHOD(Assembled,
                 "server: clients that cannot be recorded, and leases that are too short") {
  const auto warned = [this] {
    return make_admin_table(*server).ask(admin::GetStatus{})->status.warnings;
  };
  CHECK(warned().empty());
  client_refused = ENOSPC;
  auto warnings = warned();
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].contains("No space left on device"));
  CHECK(make_admin_table(*server).ask(admin::GetStatus{})->status.warning_codes ==
        std::vector<std::string>{"CLIENTS_REFUSED"});
  client_refused = 0;
  stop();
  lease = 5s;
  grace = 4s;
  start();
  warnings = warned();
  REQUIRE(warnings.size() == 2);
  CHECK(warnings[0].starts_with("Lease_Lifetime is 5 s:"));
  CHECK(warnings[1].starts_with("Grace_Period is 4 s and shorter than Lease_Lifetime, 5 s:"));
  CHECK(make_admin_table(*server).ask(admin::GetStatus{})->status.warning_codes ==
        std::vector<std::string>{"LEASE_SHORT", "GRACE_SHORT"});
}

TEST_CASE_METHOD(Assembled, "server: there are as many clients as there may be") {
  const auto warned = [this] {
    return make_admin_table(*server).ask(admin::GetStatus{})->status.warnings;
  };
  places = {.clients = 7, .most_clients = 0, .sessions = 9, .most_sessions = 0};
  CHECK(warned().empty());
  places = {.clients = 7, .most_clients = 8, .sessions = 9, .most_sessions = 10};
  CHECK(warned().empty());
  places = {.clients = 8, .most_clients = 8, .sessions = 9, .most_sessions = 10};
  REQUIRE(warned().size() == 1);
  CHECK(warned()[0].starts_with("There are 8 NFSv4 clients"));
  CHECK(make_admin_table(*server).ask(admin::GetStatus{})->status.warning_codes ==
        std::vector<std::string>{"CLIENTS_WAIT"});
  places = {.clients = 7, .most_clients = 8, .sessions = 10, .most_sessions = 10};
  REQUIRE(warned().size() == 1);
  CHECK(warned()[0].starts_with("There are 10 sessions"));
}

TEST_CASE_METHOD(Assembled, "server: the list of data servers") {
  const admin::Table reports = make_admin_table(*server);
  const auto servers_told = [&](const admin::Table& table) {
    auto told = table.ask(admin::GetDataServers{});
    REQUIRE(told);
    REQUIRE(told->data_servers.size() == 2);
    return told->data_servers;
  };
  const auto list = servers_told(reports);
  for (const std::uint32_t id : {1U, 2U}) {
    const DataServerReport& report = list.at(id - 1);
    CHECK(report.id == id);
    CHECK(report.name == "fake" + std::to_string(id));
    CHECK(report.state == DsState::kUp);
    CHECK(report.addresses == std::vector{"127.0.0.1:" + std::to_string(3000 + id)});
    CHECK(report.duty == "serving");
    CHECK(report.stale_objects == 0);
    CHECK(report.repairs.empty());
  }
  SECTION("one that is told to leave") {
    REQUIRE(reports.ask(admin::Drain{"fake1"}));
    CHECK(servers_told(reports).at(0).duty == "draining");  // what it has is not counted yet
    CHECK(servers_told(reports).at(0).objects_left == 1);
    server->repairs().mover().turn();
    CHECK(servers_told(reports).at(0).duty == "drained");  // it has nothing
    CHECK(servers_told(reports).at(0).objects_left == 0);
    CHECK(servers_told(reports).at(1).duty == "serving");
    REQUIRE(reports.ask(admin::Undrain{"1"}));
    CHECK(servers_told(reports).at(0).duty == "serving");
  }
  SECTION("one that is silent") {
    servers[1]->disconnect();
    later = 11s;
    CHECK(await_that([&] { return servers_told(reports).at(1).state == DsState::kDown; }));
  }
  SECTION("one that has not ended what an earlier run sent") {
    FakeServer& late = *servers[0];
    {
      const std::lock_guard lock(late.mutex);
      late.hold_fences = true;
    }
    restart();
    REQUIRE(await_that([&] { return late.holds_fences(); }));
    const admin::Table now = make_admin_table(*server);
    CHECK(servers_told(now).at(0).trouble.empty());
    later = 6s;
    const auto told = [&] { return servers_told(now).at(0).trouble.contains("event=change_late"); };
    CHECK(await_that(told));
    CHECK(servers_told(now).at(1).trouble.empty());
    late.let_fences_go();
    await_up(1);
    CHECK_FALSE(told());
  }
  SECTION("one that was not heard since the start") {
    servers.clear();
    restart();
    CHECK(servers_told(make_admin_table(*server)).at(0).state == DsState::kUnknown);
  }
}

TEST_CASE_METHOD(Assembled, "server: statfs counts the data servers that are up and take files") {
  const auto told = [this](std::uint32_t copies, std::uint64_t capacity, std::uint64_t free) {
    const FsSpace space = server->space(copies);
    return space.capacity_bytes == capacity && space.free_bytes == free;
  };
  for (const auto& one : servers) {
    const std::lock_guard lock(one->mutex);
    one->space = {.capacity_bytes = 1000, .free_bytes = 600, .objects = 0};
  }
  REQUIRE(await_that([&] { return told(1, 2000, 1200); }));
  SECTION("each copy is at another one, whatever failure domains there are") {
    CHECK(told(2, 1000, 600));
  }
  SECTION("no file gets a place when there are fewer than copies") { CHECK(told(3, 0, 0)); }
  SECTION("one that is told to leave does not count") {
    REQUIRE(make_admin_table(*server).ask(admin::Drain{"fake1"}));
    CHECK(told(1, 1000, 600));
  }
  SECTION("one that is down does not count") {
    servers[1]->disconnect();
    later = 11s;
    CHECK(await_that([&] { return told(1, 1000, 600); }));
    CHECK(told(2, 1000, 600));  // files go on with one copy
  }
}

TEST_CASE_METHOD(Assembled, "server: a file that was never written uses no storage") {
  constexpr std::uint64_t kSize = 10 << 20;
  const FileId f = file(kRootFileId, "f");
  const auto used = [&] { return server->data().space().of(attributes(f)).bytes; };
  REQUIRE(names->setattr(kSuperuser, f, {.size = UsedSpace::kSmallFile}));
  CHECK(used() == UsedSpace::kSmallFile);  // nobody looks
  REQUIRE(names->setattr(kSuperuser, f, {.size = kSize}));
  CHECK(used() == 0);
  REQUIRE(grant(f, 5, Access::kReadWrite));
  CHECK(used() == kSize);
  const FileId inlined = file(kRootFileId, "inlined");
  REQUIRE(names->setattr(kSuperuser, inlined, {.size = kSize}));
  const std::array<std::byte, 100> data{};
  const std::span<const std::byte> piece(data);
  REQUIRE(*names->write_inline(inlined, 0, {&piece, 1}, 1000));
  CHECK(server->data().space().of(attributes(inlined)).bytes == 4096);
}

TEST_CASE_METHOD(Assembled, "server: a file, by the path that clients have") {
  clients = {{5, {"192.0.2.5", "five"}}};
  const FileId d = dir(kRootFileId, "d");
  const FileId f = file(d, "f");
  REQUIRE(grant(f, 5, Access::kRead));
  const admin::Table reports = make_admin_table(*server);
  const auto report = reports.ask(admin::GetFile{"/export/d/f"});
  REQUIRE(report);
  CHECK(report->fileid == f);
  CHECK(report->layout_type == "files");
  CHECK(report->stripe_unit == policy.stripe_unit);
  CHECK(report->stripes.size() == 2);
  REQUIRE(report->grants.size() == 1);
  CHECK(report->grants[0].client == "192.0.2.5 (five)");
  CHECK_FALSE(report->grants[0].write);
  CHECK(reports.ask(admin::GetFile{"/export/d"}).error() == Errc::kWrongType);
  CHECK(reports.ask(admin::GetFile{"/export/d/g"}).error() == Errc::kNotFound);
  CHECK(reports.ask(admin::GetFile{"/elsewhere/f"}).error() == Errc::kInvalid);
}

TEST_CASE_METHOD(Assembled, "server: it answers at its admin socket") {
  stop();
  options.admin_socket = folder.path("socket");
  start();
  CHECK(std::filesystem::is_socket(options.admin_socket));
  stop();
  CHECK_FALSE(std::filesystem::exists(options.admin_socket));
}

TEST_CASE_METHOD(Assembled, "server: which keys servers have is told, or that it is not known") {
  {
    const std::lock_guard lock(servers[0]->mutex);
    servers[0]->keys = {0xabc, 1};
  }
  const admin::Table table = make_admin_table(*server);
  const auto report = table.ask(admin::GetKeys{});
  REQUIRE(report);
  REQUIRE(report->servers.size() == 1 + servers.size());
  CHECK(report->servers[0].server.id == 0);
  CHECK(report->servers[0].keys ==
        std::vector{rpc::peer::fingerprint_text(server->keys().first())});
  CHECK(report->servers[1].server.name == "fake1");
  CHECK(report->servers[1].keys ==
        std::vector<std::string>{"0000000000000abc", "0000000000000001"});
  CHECK(report->servers[2].keys.empty());
  CHECK(report->servers[2].why == "it is of a version that does not tell");
  CHECK(report->asks_targets);
  REQUIRE(report->servers[1].targets.size() == 1);
  CHECK(report->servers[1].targets[0].address.empty());
  CHECK(report->servers[1].targets[0].keys.empty());
  CHECK(report->servers[1].targets[0].why ==
        "its data server: it is of a version that does not tell");
  CHECK(report->servers[2].targets.empty());
  servers[0]->disconnect();
  REQUIRE(await_that([&] { return server->cluster().registry().reach(1) != Reach::kHere; }));
  const auto after = table.ask(admin::GetKeys{});
  REQUIRE(after);
  CHECK(after->servers[1].keys.empty());
  CHECK(after->servers[1].why == "it is not connected");
}

TEST_CASE_METHOD(Assembled, "server: which keys targets have is told, or why it is not known") {
  {
    const std::lock_guard lock(servers[0]->mutex);
    servers[0]->keys = {1};
    servers[0]->target_keys = {{"tcp:192.0.2.1:9640", {{0xabc, 1}}, ""},
                               {"unix:/run/weft/target.sock", {}, "it is not connected"}};
    const std::lock_guard other(servers[1]->mutex);
    servers[1]->keys = {1};
    servers[1]->target_keys.emplace();
  }
  const auto report = make_admin_table(*server).ask(admin::GetKeys{});
  REQUIRE(report);
  REQUIRE(report->servers[1].targets.size() == 2);
  CHECK(report->servers[1].targets[0].address == "tcp:192.0.2.1:9640");
  CHECK(report->servers[1].targets[0].keys ==
        std::vector<std::string>{"0000000000000abc", "0000000000000001"});
  CHECK(report->servers[1].targets[0].why.empty());
  CHECK(report->servers[1].targets[1].keys.empty());
  CHECK(report->servers[1].targets[1].why == "it is not connected");
  CHECK(report->servers[2].targets.empty());
}

TEST_CASE_METHOD(Assembled, "server: versions and options of targets, or why they are not known") {
  {
    const std::lock_guard lock(servers[0]->mutex);
    servers[0]->about_targets = {
        {.address = "tcp:192.0.2.1:9640",
         .about = {.version = "1.2", .options = {{{"cache.size", "1 GiB", "0"}}}}},
        {.address = "unix:/run/weft/target.sock", .why = "it is not connected"}};
  }
  const admin::Table table = make_admin_table(*server);
  const auto report = table.ask(admin::GetTargets{});
  REQUIRE(report);
  REQUIRE(report->servers.size() == 2);
  REQUIRE(report->servers[0].targets.size() == 2);
  CHECK(report->servers[0].server.name == "fake1");
  CHECK(report->servers[0].why.empty());
  CHECK(report->servers[0].targets[0].address == "tcp:192.0.2.1:9640");
  CHECK(report->servers[0].targets[0].version == "1.2");
  CHECK(report->servers[0].targets[0].options ==
        std::vector<OptionReport>{{"cache.size", "1 GiB", "0"}});
  CHECK(report->servers[0].targets[1].version.empty());
  CHECK(report->servers[0].targets[1].why == "it is not connected");
  CHECK(report->servers[1].targets.empty());
  CHECK(report->servers[1].why == "too old to tell of its targets");
  const auto one = table.ask(admin::GetTargets{"fake2"});
  REQUIRE(one);
  CHECK(one->servers.size() == 1);
  CHECK(table.ask(admin::GetTargets{"nobody"}).error() == Errc::kNotFound);
}

TEST_CASE_METHOD(Assembled, "server: a data server tries the addresses of others, not its own") {
  const admin::Table table = make_admin_table(*server);
  const auto address_of = [&](std::uint32_t id) {
    return server->cluster().registry().list().at(id - 1).record.addresses.at(0);
  };
  {
    const std::lock_guard lock(servers[0]->mutex);
    servers[0]->unreached = address_of(2);
  }
  const auto report = table.ask(admin::GetPaths{});
  REQUIRE(report);
  REQUIRE(report->servers.size() == 2);
  CHECK(report->servers[0].server.name == "fake1");
  CHECK(report->servers[0].why.empty());
  CHECK(report->servers[0].tried == 1);
  REQUIRE(report->servers[0].broken.size() == 1);
  CHECK(report->servers[0].broken[0].to.name == "fake2");
  CHECK(report->servers[0].broken[0].address == layout::to_string(address_of(2)));
  CHECK(report->servers[0].broken[0].why == "no answer");
  CHECK(report->servers[1].tried == 0);
  CHECK(report->servers[1].why == kTooOldForPaths);
  // One that is away is not tried, and tries nothing.
  servers[1]->disconnect();
  REQUIRE(await_that([&] { return server->cluster().registry().reach(2) != Reach::kHere; }));
  const auto after = table.ask(admin::GetPaths{});
  REQUIRE(after);
  CHECK(after->servers[0].tried == 0);
  CHECK(after->servers[0].broken.empty());
  CHECK(after->servers[1].why == "it is not connected");
}

TEST_CASE_METHOD(Assembled, "server: how a data server reaches others is told while it is there") {
  const admin::Table table = make_admin_table(*server);
  const auto report = [&] { return table.ask(admin::GetDataServers{}).value().data_servers.at(0); };
  const control::TellTransports told{{{2, 2, 0}, {3, 1, 1}, {4, 0, 2}},
                                     {{"tcp:disks1:9640", "none"}}};
  REQUIRE(await<void>([&](control::Done<void> done) {
    servers[0]->client().call(told, std::chrono::seconds(5), std::move(done));
  }));
  const DataServerReport now = report();
  REQUIRE(now.partners.size() == 3);
  CHECK(now.partners[0].id == 2);
  CHECK(now.partners[0].transport == "rdma");
  CHECK(now.partners[1].transport == "rdma and tcp");
  CHECK(now.partners[2].transport == "tcp");
  REQUIRE(now.targets.size() == 1);
  CHECK(now.targets[0].address == "tcp:disks1:9640");
  CHECK(now.targets[0].transport == "none");
  servers[0]->disconnect();
  REQUIRE(await_that([&] { return server->cluster().registry().reach(1) != Reach::kHere; }));
  CHECK(report().partners.empty());
  CHECK(report().targets.empty());
}

TEST_CASE_METHOD(Assembled, "server: how a data server's parity group is comes with its report") {
  const admin::Table table = make_admin_table(*server);
  {
    const std::lock_guard lock(servers[0]->mutex);
    servers[0]->scrub.group = true;
  }
  REQUIRE(await<void>([&](control::Done<void> done) {
    servers[0]->client().call(control::TellGroup{control::GroupState::kRebuilding, 370},
                              std::chrono::seconds(5), std::move(done));
  }));
  std::vector<GroupReport> groups;
  REQUIRE(await_that([&] {
    groups = table.ask(admin::GetStatus{}).value().status.scrub.groups;
    return !groups.empty();
  }));
  CHECK(groups[0].state == control::GroupState::kRebuilding);
  CHECK(groups[0].rebuilt_permille == 370);
}

TEST_CASE_METHOD(Assembled, "server: what segments do is told of each data server") {
  {
    const std::lock_guard lock(servers[0]->mutex);
    servers[0]->segments = control::SegmentCounts{.segments = 7, .reads = 11};
  }
  const admin::Table table = make_admin_table(*server);
  const auto report = table.ask(admin::GetSegments{});
  REQUIRE(report);
  REQUIRE(report->data_servers.size() == servers.size());
  CHECK(report->data_servers[0].server.name == "fake1");
  CHECK(report->data_servers[0].kept);
  CHECK(report->data_servers[0].counts == control::SegmentCounts{.segments = 7, .reads = 11});
  CHECK_FALSE(report->data_servers[1].kept);
  CHECK(report->data_servers[1].why == "it keeps no segments");
}

TEST_CASE_METHOD(Assembled, "server: why options of a data server are not known is told") {
  const admin::Table table = make_admin_table(*server);
  const auto report = table.ask(admin::GetServerOptions{});
  REQUIRE(report);
  REQUIRE(report->servers.size() == servers.size());
  CHECK(report->servers[0].server.name == "fake1");
  // These do not know the question, as those of the release before.
  CHECK(report->servers[0].options.empty());
  CHECK(report->servers[0].why == "it is of a version that does not tell");
  const auto one = table.ask(admin::GetServerOptions{"fake2"});
  REQUIRE(one);
  REQUIRE(one->servers.size() == 1);
  CHECK(one->servers[0].server.name == "fake2");
  CHECK(table.ask(admin::GetServerOptions{"nobody"}).error() == Errc::kNotFound);
  servers[0]->disconnect();
  REQUIRE(await_that([&] { return server->cluster().registry().reach(1) != Reach::kHere; }));
  const auto after = table.ask(admin::GetServerOptions{"1"});
  REQUIRE(after);
  CHECK(after->servers[0].why == "it is not connected");
}

}  // namespace weft::mds
