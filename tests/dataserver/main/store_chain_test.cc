// A data server whose objects are at a target.
#include "dataserver/main/store_chain.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <filesystem>

#include "dataserver/main/group_chain.h"
#include "dataserver/store/disk.h"
#include "dataserver/store/state_file.h"
#include "dataserver/targets/target.h"
#include "tests/dataserver/main/fake_mds.h"
#include "tests/dataserver/targets/target_rig.h"

namespace weft::ds {
namespace {

using rpc::nfs4::Status;
using test::DsClient;
using test::FakeMds;
using test::ServerRig;

struct TargetOf {
  explicit TargetOf(const ServerRig& rig, bool started = true, const std::string& which = "") {
    config.socket = rig.config.store.path + which + ".socket";
    config.listen = {layout::make_address("127.0.0.1", 0).value()};
    config.store.path = rig.config.store.path + which + ".objects";
    config.key_file = rig.config.key_file;
    config.threads = 2;
    config.pin_threads = false;
    if (started) start();
  }
  void start() { target = Target::open(config).value(); }
  TargetConfig config;
  std::unique_ptr<Target> target;
};

// What the data server of the rig has its parity group over.
std::vector<std::unique_ptr<TargetOf>> group_of_three(ServerRig& rig) {
  std::vector<std::unique_ptr<TargetOf>> targets;
  for (int i = 0; i < 3; ++i) {
    targets.push_back(std::make_unique<TargetOf>(rig, true, std::to_string(i)));
    rig.config.parity.push_back({.path = targets.back()->config.socket});
  }
  rig.config.parity_patience = std::chrono::seconds(1);
  return targets;
}

TEST_CASE("a data server over a target serves as one over its own folder") {
  ServerRig rig;
  const TargetOf of(rig);
  rig.config.target = TargetAddress{.path = of.config.socket};
  const auto handle = rig.handle();
  const std::string bytes(300'000, 'w');
  rpc::nfs4::WriteOk ok;
  {
    const auto server = rig.start();
    DsClient client(server->ports().at(0));
    REQUIRE(client.write(handle, 5, bytes, &ok) == Status::NFS4_OK);
    CHECK(client.commit(handle) == ok.verifier);
    const auto got = client.read(handle, 5, 400'000);
    CHECK(got.text == bytes);
    CHECK(got.eof);
    CHECK(of.target->counts().lent_bytes == bytes.size());
    // From then on the page cache is read and written, past the target.
    CHECK(client.read(handle, 10, 100).text == bytes.substr(5, 100));
    REQUIRE(client.write(handle, 5, bytes, &ok) == Status::NFS4_OK);
    REQUIRE(client.write(handle, 7, "x", &ok) == Status::NFS4_OK);
    CHECK(client.commit(handle) == ok.verifier);
    CHECK(client.read(handle, 5, 4).text == "wwxw");
    CHECK(of.target->counts().reads == 0);
    CHECK(of.target->counts().writes == 1);
    CHECK(server->stop());
  }
  // Nothing is kept by the data server: a new process finds it, with the target's verifier.
  const auto server = rig.start();
  DsClient client(server->ports().at(0));
  CHECK(client.commit(handle) == ok.verifier);
  CHECK(client.read(handle, 300'000, 10).text == "wwwww");
}

TEST_CASE("a data server with a cache reads its target once, until it has restarted") {
  ServerRig rig;
  TargetOf of(rig);
  rig.config.target = TargetAddress{.path = of.config.socket};
  rig.config.cache_bytes = std::size_t{8} << 20;
  const auto handle = rig.handle();
  const std::string bytes(300'000, 'w');
  const auto server = rig.start();
  DsClient client(server->ports().at(0));
  rpc::nfs4::WriteOk ok;
  REQUIRE(client.write(handle, 5, bytes, &ok) == Status::NFS4_OK);
  CHECK(client.read(handle, 5, 400'000).text == bytes);
  const std::uint64_t reads = of.target->counts().reads;
  for (int i = 0; i < 3; ++i) {
    const auto got = client.read(handle, 5, 400'000);
    CHECK(got.text == bytes);
    CHECK(got.eof);
    CHECK(client.read(handle, 100'000, 4096).text == bytes.substr(0, 4096));
  }
  REQUIRE(client.write(handle, 100, "hello") == Status::NFS4_OK);
  CHECK(client.read(handle, 98, 10).text == "wwhellowww");
  CHECK(of.target->counts().reads == reads);
  // Another data server does not get what is in memory.
  const auto partner = rig.handle(7, 0, layout::Access::kFetch);
  CHECK(client.read(partner, 98, 10).status == Status::NFS4ERR_ACCESS);
  DsClient other(server->ports().at(0), "another server", rig.key);
  CHECK(other.read(partner, 98, 10).text == "wwhellowww");
  CHECK(of.target->counts().reads == reads + 1);
  // It stops in order, so nothing is lost, and comes back with the same verifier.
  CHECK(of.target->stop());
  CHECK(client.read(handle, 98, 10).text == "wwhellowww");
  of.start();
  CHECK(client.commit(handle) == ok.verifier);
  CHECK(client.read(handle, 98, 10).text == "wwhellowww");
  CHECK(of.target->counts().reads == 0);
  CHECK(server->stop());
}

TEST_CASE("a cache over a parity group answers while a target is away") {
  ServerRig rig;
  std::vector<std::unique_ptr<Target>> targets;
  for (int i = 0; i < 3; ++i) {
    TargetConfig config = TargetOf(rig, false, std::to_string(i)).config;
    rig.config.parity.push_back({.path = config.socket});
    targets.push_back(Target::open(config).value());
  }
  rig.config.parity_patience = std::chrono::seconds(1);
  rig.config.cache_bytes = std::size_t{8} << 20;
  const auto reads = [&targets] {
    std::uint64_t sum = 0;
    for (const auto& target : targets) sum += target != nullptr ? target->counts().reads : 0;
    return sum;
  };
  const auto handle = rig.handle();
  const std::string bytes(700'000, 'w');
  const auto server = rig.start();
  DsClient client(server->ports().at(0));
  REQUIRE(client.write(handle, 0, bytes) == Status::NFS4_OK);
  CHECK(client.read(handle, 0, 800'000).text == bytes);
  std::uint64_t before = reads();
  CHECK(client.read(handle, 0, 800'000).text == bytes);
  CHECK(reads() == before);
  CHECK(targets[1]->stop());
  targets[1].reset();
  before = reads();
  CHECK(client.read(handle, 0, 800'000).text == bytes);
  CHECK(reads() == before);
  REQUIRE(client.write(handle, 100, "hello") == Status::NFS4_OK);
  CHECK(client.read(handle, 98, 10).text == "wwhellowww");
  CHECK(server->stop());
}

TEST_CASE("a data server joins its cluster when its target has said how much room there is") {
  ServerRig rig;
  FakeMds mds(rig.key);
  TargetOf of(rig, false);
  rig.config.target = TargetAddress{.path = of.config.socket};
  rig.config.mds = {{"127.0.0.1", mds.server().address().port}};
  const auto server = std::move(DataServer::open(rig.config, std::nullopt).value());
  for (int i = 0; i < 30; ++i) {
    REQUIRE(server->tick());
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  of.start();
  for (int i = 0; i < 500 && server->ports().empty(); ++i) {
    REQUIRE(server->tick());
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  REQUIRE_FALSE(server->ports().empty());
  REQUIRE(mds.registrations.size() == 1);
  CHECK(mds.registrations[0].space.capacity_bytes > 0);
}

// Until a target has noted a state of a later generation than `before`, in this folder.
void wait_noted(const std::string& folder, DataServer& server, std::uint64_t before) {
  for (int i = 0; i < 500; ++i) {
    REQUIRE(server.tick());
    if (test::noted_target(folder).generation > before) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  FAIL("nothing noted");
}

TEST_CASE("a data server whose target was rolled back registers with a state that is reviewed") {
  ServerRig rig;
  FakeMds mds(rig.key);
  TargetOf of(rig);
  rig.config.target = TargetAddress{.path = of.config.socket};
  const std::string objects = of.config.store.path;
  const auto registered = [&](std::size_t which) {
    const std::lock_guard lock(mds.mutex());
    return mds.registrations.at(which).state;
  };
  {
    const auto server = test::start_registered(rig, mds);
    wait_noted(rig.config.store.path, *server, 0);
    REQUIRE(server->stop());
  }
  of.target.reset();
  std::filesystem::copy(objects, objects + ".old", std::filesystem::copy_options::recursive);
  of.start();
  auto server = test::start_registered(rig, mds);
  wait_noted(rig.config.store.path, *server, 1);
  CHECK(registered(1).generation == 1);
  const bool goes_on = GENERATE(true, false);
  if (!goes_on) REQUIRE(server->stop());
  of.target.reset();
  std::filesystem::remove_all(objects);
  std::filesystem::rename(objects + ".old", objects);
  of.start();
  if (goes_on) {
    Result<> ticked;
    for (int i = 0; i < 500 && ticked; ++i) {
      ticked = server->tick();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    REQUIRE(ticked.error() == Errc::kStale);
    static_cast<void>(server->stop());
  }
  server.reset();
  // Nothing is noted of it before it has been accepted.
  const auto folder = open_directory(rig.config.store.path).value();
  const StoreState before = read_state(folder.get()).value();
  rig.config.mds = {{"127.0.0.1", 1}};
  server = std::move(DataServer::open(rig.config, std::nullopt).value());
  for (int i = 0; i < 100; ++i) {
    REQUIRE(server->tick());
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(read_state(folder.get()).value() == before);
  REQUIRE(server->stop());
  server.reset();
  // The state that it had was accepted. This one was not, and is one only for once.
  server = test::start_registered(rig, mds);
  CHECK(registered(2).generation == 2);
  CHECK(registered(2).boot != mds.registrations.at(1).boot);
  server.reset();
  server = test::start_registered(rig, mds);
  CHECK(registered(3) == rpc::control::StoreState{3, mds.registrations.at(2).boot});
}

TEST_CASE("a data server over a parity group goes on without one of its targets") {
  ServerRig rig;
  std::vector<std::unique_ptr<Target>> targets;
  std::vector<TargetConfig> configs;
  for (int i = 0; i < 3; ++i) {
    TargetConfig config = TargetOf(rig, false, std::to_string(i)).config;
    rig.config.parity.push_back({.path = config.socket});
    targets.push_back(Target::open(config).value());
    configs.push_back(config);
  }
  rig.config.parity_patience = std::chrono::seconds(1);
  const auto handle = rig.handle();
  const std::string bytes(700'000, 'w');
  {
    const auto server = rig.start();
    DsClient client(server->ports().at(0));
    rpc::nfs4::WriteOk ok;
    REQUIRE(client.write(handle, 5, bytes, &ok) == Status::NFS4_OK);
    CHECK(client.commit(handle) == ok.verifier);
    CHECK(targets[1]->stop());
    targets[1].reset();
    CHECK(client.read(handle, 5, 800'000).text == bytes);
    REQUIRE(client.write(handle, 100, "hello", &ok) == Status::NFS4_OK);
    CHECK(client.commit(handle) == ok.verifier);
    targets[1] = Target::open(configs[1]).value();
    CHECK(server->stop());
  }
  // A new process knows what that target missed.
  const auto server = rig.start();
  DsClient client(server->ports().at(0));
  auto expected = bytes;
  expected.replace(95, 5, "hello");
  CHECK(client.read(handle, 5, 800'000).text == expected);
}

TEST_CASE("a data server tells how its parity group is, whenever that changes") {
  using rpc::control::GroupState;
  ServerRig rig;
  std::vector<std::unique_ptr<Target>> targets;
  std::vector<TargetConfig> configs;
  for (int i = 0; i < 3; ++i) {
    configs.push_back(TargetOf(rig, false, std::to_string(i)).config);
    rig.config.parity.push_back({.path = configs.back().socket});
    targets.push_back(Target::open(configs.back()).value());
  }
  rig.config.parity_patience = std::chrono::seconds(1);
  FakeMds mds(rig.key);
  const auto server = test::start_registered(rig, mds);
  const auto hears = [&](GroupState state) {
    return mds.wait([&] { return mds.group.state == state; });
  };
  CHECK(hears(GroupState::kWhole));
  {
    const std::lock_guard lock(mds.mutex());
    mds.group = {};
  }
  mds.server().disconnect(FakeMds::kId);
  CHECK(hears(GroupState::kWhole));  // over another connection nothing was told yet
  CHECK(targets[1]->stop());
  targets[1].reset();
  DsClient client(server->ports().at(0));
  REQUIRE(client.write(rig.handle(FakeMds::kId), 5, std::string(700'000, 'w')) == Status::NFS4_OK);
  CHECK(hears(GroupState::kDegraded));
  targets[1] = Target::open(configs[1]).value();
  CHECK(hears(GroupState::kWhole));
}

TEST_CASE("a data server whose group waits for targets says so, and serves when they are back") {
  ServerRig rig;
  const auto targets = group_of_three(rig);
  FakeMds mds(rig.key);
  const auto server = test::start_registered(rig, mds);
  const auto handle = rig.handle(FakeMds::kId);
  const std::string bytes(700'000, 'w');
  DsClient client(server->ports().at(0));
  rpc::nfs4::WriteOk ok;
  REQUIRE(client.write(handle, 0, bytes, &ok) == Status::NFS4_OK);
  CHECK(client.commit(handle) == ok.verifier);
  const auto says = [&mds](auto trouble) {
    const auto said = [&] { return mds.last_heartbeat && trouble(mds.last_heartbeat->trouble); };
    return mds.wait(said, std::chrono::seconds(30));  // StoreWatch::kPatience, and more
  };
  for (const std::size_t lost : {0, 1}) targets[lost]->target.reset();
  CHECK(client.write(handle, 0, bytes) != Status::NFS4_OK);
  CHECK(says([](const std::string& trouble) { return trouble.starts_with("its group"); }));
  CHECK(client.read(handle, 0, 10).status == Status::NFS4ERR_ACCESS);
  for (const std::size_t lost : {0, 1}) targets[lost]->start();
  CHECK(says([](const std::string& trouble) { return trouble.empty(); }));
  CHECK(client.read(handle, 0, 800'000).text == bytes);
  CHECK(server->stop());
}

TEST_CASE("a member of a parity group that was rolled back is not read") {
  ServerRig rig;
  const auto targets = group_of_three(rig);
  const auto handle = rig.handle();
  const std::string objects = targets[1]->config.store.path;
  const auto folder = rig.config.store.path + "/member-1";
  const auto write = [&](const std::string& bytes, std::uint64_t noted_before) {
    const auto server = rig.start();
    DsClient client(server->ports().at(0));
    rpc::nfs4::WriteOk ok;
    REQUIRE(client.write(handle, 0, bytes, &ok) == Status::NFS4_OK);
    CHECK(client.commit(handle) == ok.verifier);
    wait_noted(folder, *server, noted_before);
    CHECK(server->stop());
  };
  write(std::string(700'000, 'o'), 0);
  targets[1]->target.reset();
  std::filesystem::copy(objects, objects + ".old", std::filesystem::copy_options::recursive);
  targets[1]->start();
  write(std::string(700'000, 'n'), 1);
  targets[1]->target.reset();
  std::filesystem::remove_all(objects);
  std::filesystem::rename(objects + ".old", objects);
  targets[1]->start();
  const auto server = rig.start();
  DsClient client(server->ports().at(0));
  CHECK(client.read(handle, 0, 700'000).text == std::string(700'000, 'n'));
}

TEST_CASE("a data server that is not accepted changes nothing at the targets of its group") {
  ServerRig rig;
  const auto targets = group_of_three(rig);
  FakeMds mds(rig.key);
  const auto handle = rig.handle(FakeMds::kId);
  const std::string bytes(700'000, 'w');
  {
    const auto server = test::start_registered(rig, mds);
    DsClient client(server->ports().at(0));
    rpc::nfs4::WriteOk ok;
    REQUIRE(client.write(handle, 0, bytes, &ok) == Status::NFS4_OK);
    CHECK(client.commit(handle) == ok.verifier);
    CHECK(server->stop());
  }
  // A new and empty store, which the group would build anew.
  const std::string objects = targets[1]->config.store.path;
  targets[1]->target.reset();
  std::filesystem::remove_all(objects);
  targets[1]->start();
  const auto held = [&objects] {
    std::uintmax_t size = 0;
    std::error_code gone;  // a file that is renamed meanwhile
    auto one = std::filesystem::recursive_directory_iterator(objects, gone);
    while (one != std::filesystem::recursive_directory_iterator()) {
      const auto bytes = one->is_regular_file(gone) ? one->file_size(gone) : 0;
      if (!gone) size += bytes;
      one.increment(gone);
    }
    return size;
  };
  mds.refuses = true;
  auto server = std::move(DataServer::open(rig.config, std::nullopt).value());
  const auto ticks = [&](std::chrono::seconds longest, auto until) {
    const auto end = std::chrono::steady_clock::now() + longest;
    while (!until() && std::chrono::steady_clock::now() < end) {
      REQUIRE(server->tick());
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return until();
  };
  const auto asked = [&mds](std::size_t times) {
    const std::lock_guard lock(mds.mutex());
    return mds.registrations.size() >= times;
  };
  REQUIRE(ticks(std::chrono::seconds(60), [&] { return asked(3); }));
  CHECK_FALSE(ticks(std::chrono::seconds(4), [&] { return held() > bytes.size() / 2; }));
  mds.refuses = false;
  CHECK(ticks(std::chrono::seconds(60), [&] { return held() > bytes.size() / 2; }));
  REQUIRE(ticks(std::chrono::seconds(60), [&] { return server->listening(); }));
  DsClient client(server->ports().at(0));
  CHECK(client.read(handle, 0, 700'000).text == bytes);
  CHECK(server->stop());
}

TEST_CASE("no two members of a group are one store") {
  MemberIdentities identities(3);
  Uuid a{};
  Uuid b{};
  a.fill(std::byte{1});
  b.fill(std::byte{2});
  CHECK(identities.claim(0, a, true));
  CHECK(identities.claim(1, a, false).error() == Errc::kStale);
  CHECK(identities.claim(1, b, false));
  CHECK(identities.claim(0, b, false).error() == Errc::kStale);
  Uuid c{};
  c.fill(std::byte{3});
  CHECK(identities.claim(0, c, false));  // offered, not taken
  CHECK(identities.claim(2, a, false).error() == Errc::kStale);
  CHECK(identities.claim(0, c, true));
  CHECK(identities.claim(2, a, false));
}

TEST_CASE("a folder with objects of its own is not used with a target, nor the other way round") {
  ServerRig rig;
  const TargetOf of(rig);
  rig.config.target = TargetAddress{.path = of.config.socket};
  {
    const auto server = rig.start();
    DsClient client(server->ports().at(0));
    REQUIRE(client.write(rig.handle(), 0, "x") == Status::NFS4_OK);
  }
  rig.config.target.reset();
  CHECK(DataServer::open(rig.config, DataServer::Standalone{7}).error() == Errc::kInvalid);

  ServerRig other;
  {
    auto folder = StoreDirectory::open(other.config.store.path, true, system_random()).value();
    REQUIRE(folder->join(Uuid{}, 3));
  }
  other.config.target = TargetAddress{.path = of.config.socket};
  CHECK(DataServer::open(other.config, DataServer::Standalone{7}).error() == Errc::kInvalid);
}

}  // namespace
}  // namespace weft::ds
