// A data server and a metadata server's end of the control protocol, over TCP.
#include "dataserver/main/control_link.h"

#include <signal.h>
#include <sys/resource.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <future>

#include "rpc/control/mds_boot.h"
#include "tests/dataserver/main/fake_mds.h"
#include "tests/dataserver/targets/target_rig.h"

namespace weft::ds {
namespace {

namespace control = rpc::control;
using namespace std::chrono_literals;
using rpc::nfs4::Status;
using test::DsClient;
using test::FakeMds;
using test::kServedObject;
using test::ServerRig;
using test::start_registered;

constexpr std::uint32_t kId = FakeMds::kId;

TEST_CASE("a data server registers, keeps its place, and sends heartbeats") {
  ServerRig rig;
  FakeMds mds(rig.key);
  {
    const auto server = start_registered(rig, mds);
    DsClient client(server->ports().at(0));
    REQUIRE(client.write(rig.handle(kId), 0, "12345") == Status::NFS4_OK);
    CHECK(mds.wait([&] {
      return mds.last_heartbeat && mds.last_heartbeat->counters.write_bytes == 5 &&
             mds.last_heartbeat->space.objects == 1;
    }));
    CHECK(server->stop());
  }
  const auto again = start_registered(rig, mds);
  REQUIRE(mds.registrations.size() == 2);
  CHECK(mds.registrations[0].state == control::StoreState{});
  CHECK(mds.registrations[1].state == control::StoreState{1, mds.registrations[0].boot});
  CHECK(mds.wait([&] {
    return mds.last_heartbeat &&
           mds.last_heartbeat->state == control::StoreState{2, mds.registrations[1].boot};
  }));
  CHECK(mds.registrations[0].ds_id == 0);
  CHECK(mds.registrations[1].ds_id == kId);
  CHECK(mds.registrations[1].cluster == control::Uuid{std::byte{0xC1}});
  CHECK(mds.registrations[0].store == mds.registrations[1].store);
  CHECK(mds.registrations[0].boot != mds.registrations[1].boot);
  CHECK(layout::to_string(mds.registrations[0].addresses.at(0)) == "192.0.2.1:2051");
}

TEST_CASE("fences take effect before they are answered, and those missed come first") {
  ServerRig rig;
  FakeMds mds(rig.key);
  {
    const auto server = start_registered(rig, mds);
    DsClient client(server->ports().at(0));
    REQUIRE(client.write(rig.handle(kId, 1), 0, "x") == Status::NFS4_OK);
    REQUIRE(mds.fence({{.object = kServedObject, .epoch = 2}}));
    CHECK(client.write(rig.handle(kId, 1), 0, "x") == Status::NFS4ERR_ACCESS);
    CHECK(client.read(rig.handle(kId, 1), 0, 1).status == Status::NFS4ERR_ACCESS);
    CHECK(client.write(rig.handle(kId, 2), 0, "x") == Status::NFS4_OK);
  }
  mds.fences_at_registration = {{.object = kServedObject, .epoch = 5}};
  const auto server = start_registered(rig, mds);
  DsClient client(server->ports().at(0));
  CHECK(client.write(rig.handle(kId, 4), 0, "x") == Status::NFS4ERR_ACCESS);
  CHECK(client.write(rig.handle(kId, 5), 0, "x") == Status::NFS4_OK);
}

TEST_CASE("fences that come together share syncs, and each is in force when it is answered") {
  ServerRig rig;
  FakeMds mds(rig.key);
  const auto server = start_registered(rig, mds);
  constexpr std::uint32_t kMany = 200;
  std::atomic<std::uint32_t> good = 0;
  std::promise<void> last;
  for (std::uint32_t i = 1; i <= kMany; ++i) {
    // The served object's is the last.
    const layout::ObjectId other{.fileid = 1000 + i, .generation = 1, .fsid = 1};
    control::FenceRequest request{{{.object = i == kMany ? kServedObject : other, .epoch = 2}}};
    mds.server().call(kId, request, 5s, [&, i](const Result<>& outcome) {
      if (outcome) ++good;
      if (i == kMany) last.set_value();
    });
  }
  last.get_future().wait();
  DsClient client(server->ports().at(0));
  CHECK(client.write(rig.handle(kId, 1), 0, "x") == Status::NFS4ERR_ACCESS);
  CHECK(mds.wait([&] { return good == kMany; }));
}

TEST_CASE("a data server lists its objects") {
  ServerRig rig;
  FakeMds mds(rig.key);
  const auto server = start_registered(rig, mds);
  const auto list = [&](const control::ListFrom& from) {
    return mds.ask<control::Listed>(
        [&](auto done) { mds.server().call(kId, from, 5s, std::move(done)); });
  };
  auto page = list({});
  REQUIRE(page);
  CHECK(page->objects.empty());
  DsClient client(server->ports().at(0));
  REQUIRE(client.write(rig.handle(kId), 0, "12345") == Status::NFS4_OK);
  // Pages may be empty though there are more.
  std::vector<layout::ObjectId> objects;
  control::ListFrom from;
  do {
    page = list(from);
    REQUIRE(page);
    objects.insert(objects.end(), page->objects.begin(), page->objects.end());
    from = page->next;
  } while (page->more);
  CHECK(objects == std::vector{kServedObject});
}

TEST_CASE("of two copies of a metadata server only the one that was started last is followed") {
  ServerRig rig;
  FakeMds mds(rig.key);
  const auto follows = [&](std::uint64_t epoch, std::uint32_t drawn) {
    mds.boot = control::mds_boot(epoch, drawn);
    {
      const std::lock_guard lock(mds.mutex());
      mds.last_heartbeat.reset();
    }
    mds.server().disconnect(FakeMds::kId);
    return mds.wait([&] { return mds.last_heartbeat.has_value(); }, 3s);
  };
  mds.boot = control::mds_boot(5, 77);
  {
    const auto server = start_registered(rig, mds);
    CHECK(follows(5, 77));
    CHECK(follows(7, 1));
    CHECK_FALSE(follows(5, 77));  // the copy that went on
    CHECK_FALSE(follows(6, 2));
    CHECK_FALSE(follows(7, 2));  // two copies of one state, both started
    CHECK(follows(7, 1));
    CHECK(server->stop());
  }
  // Nor by its next run.
  mds.boot = control::mds_boot(6, 3);
  rig.config.mds = {{"127.0.0.1", mds.server().address().port}};
  const auto server = std::move(DataServer::open(rig.config, std::nullopt).value());
  CHECK_FALSE(follows(6, 3));
  CHECK(follows(8, 3));
  CHECK(server->stop());
}

// No file grows meanwhile, as on a disk that fails.
class NoFileGrows {
 public:
  NoFileGrows() {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit none{16, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &none);
  }
  ~NoFileGrows() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST_CASE("who cannot have all of its addresses does not register") {
  ServerRig rig;
  FakeMds mds(rig.key);
  rig.config.mds = {{"127.0.0.1", mds.server().address().port}};
  rig.config.advertise = {layout::make_address("192.0.2.1", 2051).value()};
  // One that is not this machine's, and one that somebody else has.
  for (const auto& taken :
       {layout::make_address("192.0.2.1", 2051).value(), mds.server().address()}) {
    rig.config.listen.resize(1);
    rig.config.listen.push_back(taken);
    CHECK_FALSE(DataServer::open(rig.config, std::nullopt));
  }
  std::this_thread::sleep_for(300ms);
  const std::lock_guard lock(mds.mutex());
  CHECK(mds.registrations.empty());
}

TEST_CASE("what a data server waits for is said in a line") {
  ServerRig rig;
  rig.config.advertise = {layout::make_address("192.0.2.1", 2051).value()};
  std::uint16_t port = 0;
  {
    FakeMds mds(rig.key);
    port = mds.server().address().port;
    const auto server = start_registered(rig, mds);
    CHECK(server->status() == "serves");
    CHECK(server->stop());
  }
  const auto server = std::move(DataServer::open(rig.config, std::nullopt).value());
  const std::string begin =
      "does not serve without metadata server 127.0.0.1:" + std::to_string(port) + ": ";
  for (int i = 0; i < 1000 && !server->status().starts_with(begin); ++i) {
    std::this_thread::sleep_for(10ms);
  }
  CHECK(server->status().starts_with(begin));
  CHECK_FALSE(server->listening());
  CHECK(server->ports().empty());
  CHECK(server->stop());
}

TEST_CASE("a data server that cannot note a fence says so, serves nobody, and comes back") {
  ServerRig rig;
  FakeMds mds(rig.key);
  const auto server = start_registered(rig, mds);
  DsClient client(server->ports().at(0));
  REQUIRE(client.write(rig.handle(kId, 1), 0, "x") == Status::NFS4_OK);
  const auto trouble = [&] {
    return mds.last_heartbeat ? mds.last_heartbeat->trouble : std::string();
  };
  {
    const NoFileGrows broken;
    CHECK_FALSE(mds.fence({{.object = kServedObject, .epoch = 2}}));
    CHECK(mds.wait([&] { return trouble().starts_with("no fence can be noted"); }));
    CHECK(client.write(rig.handle(kId, 9), 0, "x") == Status::NFS4ERR_ACCESS);
    CHECK(client.read(rig.handle(kId, 9), 0, 1).status == Status::NFS4ERR_ACCESS);
    // Nor does it get anywhere by registering anew; it stays, and says why.
    {
      const std::lock_guard lock(mds.mutex());
      mds.fences_at_registration = {{.object = kServedObject, .epoch = 2}};
      mds.last_heartbeat.reset();
    }
    mds.server().disconnect(kId);
    CHECK(mds.wait([&] { return mds.registrations.size() == 2 && !trouble().empty(); }));
    CHECK(client.read(rig.handle(kId, 9), 0, 1).status == Status::NFS4ERR_ACCESS);
  }
  CHECK(mds.wait([&] { return mds.last_heartbeat && trouble().empty(); }));
  CHECK(mds.registrations.size() == 2);
  REQUIRE(mds.fence({{.object = kServedObject, .epoch = 2}}));
  CHECK(client.write(rig.handle(kId, 9), 0, "x") == Status::NFS4_OK);
  CHECK(client.write(rig.handle(kId, 1), 0, "x") == Status::NFS4ERR_ACCESS);
}

// Of one write, as on a disk that hangs.
class HangingSync final : public Faults {
 public:
  int sync_error(const layout::ObjectId& /*object*/) override {
    if (begun_.exchange(true)) return 0;
    begun.set_value();
    end.get_future().wait();
    return 0;
  }
  std::promise<void> begun;
  std::promise<void> end;

 private:
  std::atomic<bool> begun_{false};
};

TEST_CASE("a data server is in trouble until what was under way when its disk failed is over") {
  ServerRig rig;
  HangingSync sync;
  rig.config.store.faults = &sync;
  FakeMds mds(rig.key);
  const auto server = start_registered(rig, mds);
  DsClient client(server->ports().at(0));
  auto old = std::async(std::launch::async, [&] {
    client.write(rig.handle(kId, 1), 0, "old", nullptr, rpc::nfs4::StableHow::DATA_SYNC4);
  });
  sync.begun.get_future().wait();
  const auto trouble = [&] {
    return mds.last_heartbeat ? mds.last_heartbeat->trouble : std::string();
  };
  {
    const NoFileGrows broken;
    CHECK_FALSE(mds.fence({{.object = kServedObject, .epoch = 1}}));
    CHECK(mds.wait([&] { return trouble().starts_with("no fence can be noted"); }));
  }
  CHECK(mds.wait([&] { return trouble().starts_with("its store is back"); }));
  sync.end.set_value();
  CHECK(mds.wait([&] { return trouble().empty(); }));
  old.get();
  CHECK(client.write(rig.handle(kId, 1), 0, "new") == Status::NFS4_OK);
}

TEST_CASE("a data server whose disk cannot be read is registered again all the same") {
  ServerRig rig;
  FakeMds mds(rig.key);
  const auto server = start_registered(rig, mds);
  // Which metadata server it follows cannot be read any more.
  std::filesystem::create_symlink("mds", rig.config.store.path + "/mds");
  {
    const std::lock_guard lock(mds.mutex());
    mds.last_heartbeat.reset();
  }
  mds.server().disconnect(kId);
  CHECK(mds.wait([&] { return mds.registrations.size() == 2 && mds.last_heartbeat.has_value(); }));
  CHECK(server->stop());
}

TEST_CASE("the metadata server's size makes eof, and hears of stable writes first") {
  ServerRig rig;
  FakeMds mds(rig.key);
  const auto server = start_registered(rig, mds);
  DsClient client(server->ports().at(0));
  const auto handle = rig.handle(kId);
  REQUIRE(client.write(handle, 0, "0123", nullptr, rpc::nfs4::StableHow::FILE_SYNC4) ==
          Status::NFS4_OK);
  CHECK(mds.reported_end == 4);
  mds.file_size = 6;
  const auto got = client.read(handle, 0, 100);
  CHECK(got.text == std::string("0123\0\0", 6));
  CHECK(got.eof);
  CHECK_FALSE(client.read(handle, 0, 4).eof);
}

TEST_CASE("a size is asked for and counted where a read ends short of what was wanted") {
  ServerRig rig;
  FakeMds mds(rig.key);
  const auto server = start_registered(rig, mds);
  DsClient client(server->ports().at(0));
  const auto handle = rig.handle(kId);
  const std::string bytes(100'000, 'b');
  REQUIRE(client.write(handle, 0, bytes) == Status::NFS4_OK);
  mds.file_size = bytes.size();
  const auto counted = [&mds](std::uint64_t reads, std::uint64_t queries) {
    return mds.wait([&] {
      return mds.last_heartbeat && mds.last_heartbeat->counters.reads == reads &&
             mds.last_heartbeat->counters.size_queries == queries;
    });
  };
  for (int i = 0; i < 5; ++i) CHECK(client.read(handle, 50'000, 50'000).text.size() == 50'000);
  CHECK(counted(5, 0));
  CHECK(client.read(handle, 50'000, 50'001).eof);
  CHECK(counted(6, 1));
}

TEST_CASE("truncate, stat, allocate, punch and remove come from the metadata server") {
  ServerRig rig;
  FakeMds mds(rig.key);
  const auto server = start_registered(rig, mds);
  control::Server& to = mds.server();
  const auto stat = [&] {
    return mds.ask<control::ObjectStat>(
        [&](auto done) { to.call(kId, control::Stat{kServedObject}, 5s, std::move(done)); });
  };
  CHECK_FALSE(stat()->exists);
  const auto cut = mds.ask<control::ObjectStat>([&](auto done) {
    to.call(kId, control::Truncate{kServedObject, 1000}, 5s, std::move(done));
  });
  CHECK(cut->size == 1000);
  CHECK(mds.ask<void>([&](auto done) {
    to.call(kId, control::Allocate{{kServedObject, 0, 1 << 20}}, 5s, std::move(done));
  }));
  CHECK(stat()->size == 1 << 20);
  CHECK(stat()->allocated >= 1 << 20);
  CHECK(mds.ask<void>([&](auto done) {
    to.call(kId, control::Punch{{kServedObject, 0, 1 << 20}}, 5s, std::move(done));
  }));
  CHECK(stat()->allocated < 65536);
  CHECK(mds.ask<void>([&](auto done) {
    to.call(kId, control::Remove{{kServedObject, {.fileid = 999, .generation = 1}}}, 5s,
            std::move(done));
  }));
  CHECK_FALSE(stat()->exists);
}

TEST_CASE("what is expected is read ahead, if it is to be") {
  ServerRig rig;
  rig.config.prefetch = ReadsAhead::kOn;
  SECTION("not") { rig.config.prefetch = ReadsAhead::kOff; }
  SECTION("yes") {}
  FakeMds mds(rig.key);
  const auto server = start_registered(rig, mds);
  DsClient client(server->ports().at(0));
  REQUIRE(client.write(rig.handle(kId), 0, std::string(100'000, 'x')) == Status::NFS4_OK);
  // One that is not there as well: that is its readers' business.
  control::Prefetch request{{{kServedObject, 0, 100'000}, {{.fileid = 99}, 0, 1}}};
  const auto told =
      mds.ask<void>([&](auto done) { mds.server().call(kId, request, 5s, std::move(done)); });
  if (rig.config.prefetch == ReadsAhead::kOff) {
    REQUIRE_FALSE(told);
    CHECK(told.error() == Errc::kNotSupported);
  } else {
    CHECK(told);
  }
  CHECK(client.read(rig.handle(kId), 0, 4).text == "xxxx");
  CHECK(server->stop());
}

TEST_CASE("a data server says which keys it has") {
  ServerRig rig;
  FakeMds mds(rig.key);
  const auto server = start_registered(rig, mds);
  const auto held = mds.ask<control::HeldKeys>(
      [&](auto done) { mds.server().call(kId, control::GetKeys{}, 5s, std::move(done)); });
  REQUIRE(held);
  CHECK(held->fingerprints == std::vector{rpc::peer::fingerprint(rig.key)});
}

std::vector<control::TargetKeys> ask_target_keys(FakeMds& mds) {
  return mds
      .ask<control::HeldByTargets>(
          [&](auto done) { mds.server().call(kId, control::GetTargetKeys{}, 5s, std::move(done)); })
      .value()
      .targets;
}

// With the key that the target has.
void keep_objects_at(const test::TargetRig& target, ServerRig& rig) {
  rig.config.key_file = target.folder.path() + "/key";
  rig.key = rpc::peer::parse_cluster_key(test::key_text('a')).value();
  rig.config.target = target.local();
}

TEST_CASE("a data server with a folder says that it has no targets whose keys matter") {
  ServerRig rig;
  FakeMds mds(rig.key);
  const auto server = start_registered(rig, mds);
  CHECK(ask_target_keys(mds).empty());
}

TEST_CASE("a data server says which keys its target has, or why it does not know") {
  const test::TargetRig target_rig;
  auto target = std::make_unique<test::TargetChild>(target_rig);
  ServerRig rig;
  keep_objects_at(target_rig, rig);
  FakeMds mds(rig.key);
  const auto server = start_registered(rig, mds);
  const auto says = [&](const control::TargetKeys& wanted) {
    for (int i = 0; i < 600; ++i) {
      if (ask_target_keys(mds) == std::vector{wanted}) return true;
      std::this_thread::sleep_for(50ms);
    }
    return false;
  };
  const std::string address = "unix:" + target_rig.socket();
  CHECK(says({address, {{rpc::peer::fingerprint(rig.key)}}, ""}));
  target.reset();
  CHECK(says({address, {}, "it is not connected"}));
}

TEST_CASE("a data server says how it reaches its target, whenever that changes") {
  const test::TargetRig target_rig;
  auto target = std::make_unique<test::TargetChild>(target_rig);
  ServerRig rig;
  keep_objects_at(target_rig, rig);
  FakeMds mds(rig.key);
  const auto server = start_registered(rig, mds);
  const std::string address = "unix:" + target_rig.socket();
  const auto hears = [&](const std::string& transport) {
    return mds.wait([&] {
      return !mds.transports.empty() &&
             mds.transports.back() == control::TellTransports{{}, {{address, transport}}};
    });
  };
  CHECK(hears("shared memory"));
  // Over another connection nothing was told yet.
  const auto forget = [&] {
    const std::lock_guard lock(mds.mutex());
    mds.transports.clear();
    mds.last_heartbeat.reset();
  };
  forget();
  mds.server().disconnect(kId);
  CHECK(hears("shared memory"));
  CHECK(mds.transports.size() == 1);
  target.reset();
  CHECK(hears("none"));
  // One that does not know it is told once over each connection, and followed as before.
  mds.older = true;
  forget();
  mds.server().disconnect(kId);
  REQUIRE(hears("none"));
  for (int i = 0; i < 5; ++i) {
    {
      const std::lock_guard lock(mds.mutex());
      mds.last_heartbeat.reset();
    }
    REQUIRE(mds.wait([&] { return mds.last_heartbeat.has_value(); }));
  }
  CHECK(mds.transports.size() == 1);
}

TEST_CASE("a data server says what its segments do, or that it keeps none") {
  const auto ask = [](ServerRig& rig) {
    FakeMds mds(rig.key);
    const auto server = start_registered(rig, mds);
    return mds.ask<control::SegmentCounts>(
        [&](auto done) { mds.server().call(kId, control::GetSegments{}, 5s, std::move(done)); });
  };
  ServerRig plain;
  const auto none = ask(plain);
  REQUIRE_FALSE(none);
  CHECK(none.error() == Errc::kNotFound);
  ServerRig keeping;
  keeping.config.segments.size = 16 << 20;
  const auto counts = ask(keeping);
  REQUIRE(counts);
  CHECK(counts->most_bytes == 16 << 20);
  CHECK(counts->most_memory_bytes == keeping.config.segments.cache_bytes);
  CHECK(counts->segments == 0);
}

TEST_CASE("a data server tries the addresses that the metadata server names") {
  ServerRig rig;
  FakeMds mds(rig.key);
  const auto server = start_registered(rig, mds);
  const control::TryAddresses request{{mds.server().address()}};
  const auto tried = mds.ask<control::TriedAddresses>(
      [&](auto done) { mds.server().call(kId, request, 5s, std::move(done)); });
  REQUIRE(tried);
  CHECK(tried->why == std::vector<std::string>{""});
}

TEST_CASE("a data server says which options hold, also after they were read again") {
  ServerRig rig;
  FakeMds mds(rig.key);
  const auto server = start_registered(rig, mds);
  const auto option = [&](const std::string& name) {
    const auto held = mds.ask<control::Options>(
        [&](auto done) { mds.server().call(kId, control::GetOptions{}, 5s, std::move(done)); });
    REQUIRE(held);
    const auto found = std::ranges::find(held->options, name, &control::Option::name);
    REQUIRE(found != held->options.end());
    return *found;
  };
  CHECK(option("server.memory_limit") ==
        control::Option{"server.memory_limit", "64 MiB", "512 MiB"});
  CHECK(option("server.drain_seconds") == control::Option{"server.drain_seconds", "10 s", "10 s"});
  CHECK(option("cluster.key_file").value == rig.config.key_file);
  DsConfig next = rig.config;
  next.drain = 3s;
  next.threads = 1;  // needs a restart
  server->reload(next);
  CHECK(option("server.drain_seconds").value == "3 s");
  CHECK(option("server.threads").value == "2");
}

TEST_CASE("units of a striped file are reserved, and found, in one request") {
  ServerRig rig;
  FakeMds mds(rig.key);
  const auto server = start_registered(rig, mds);
  control::Server& to = mds.server();
  constexpr std::uint32_t kUnit = 64 << 10;
  const control::Share share{kUnit, 4, 0, 1};
  const auto seek = [&](std::uint64_t from, bool hole) {
    return mds.ask<control::SeekAnswer>([&](auto done) {
      to.call(kId, control::Seek{kServedObject, from, share, hole}, 5s, std::move(done));
    });
  };
  CHECK(seek(0, false)->offset == control::SeekAnswer::kNone);  // there is no object
  CHECK(seek(0, true)->offset == kUnit);
  CHECK(mds.ask<void>([&](auto done) {
    to.call(kId, control::AllocateShare{{kServedObject, 0, 16 << 20}, share}, 5s, std::move(done));
  }));
  const auto stat = mds.ask<control::ObjectStat>(
      [&](auto done) { to.call(kId, control::Stat{kServedObject}, 5s, std::move(done)); });
  CHECK(stat->allocated >= 4 << 20);
  CHECK(stat->allocated < 5 << 20);
  CHECK(stat->size == (16 << 20) - 2 * kUnit);
  DsClient client(server->ports().at(0));
  REQUIRE(client.write(rig.handle(kId), 5 * kUnit, "0123") == Status::NFS4_OK);
  CHECK(seek(0, false)->offset == 5 * kUnit);
  CHECK(seek(5 * kUnit, true)->offset < 6 * kUnit);
  CHECK(seek(6 * kUnit, false)->offset == control::SeekAnswer::kNone);
}

TEST_CASE("nothing is served before the metadata server has answered") {
  ServerRig rig;
  rig.config.mds = {{"127.0.0.1", 9}};  // discard: nobody
  rig.config.advertise = {layout::make_address("192.0.2.1", 2051).value()};
  const auto server = std::move(DataServer::open(rig.config, std::nullopt).value());
  REQUIRE(server->tick());
  CHECK(server->ports().empty());
  CHECK(server->stop());
}

TEST_CASE("a read at the object's end waits for a metadata server that is away") {
  ServerRig rig;
  auto mds = std::make_unique<FakeMds>(rig.key);
  const auto server = start_registered(rig, *mds);
  const auto address = mds->server().address();
  DsClient client(server->ports().at(0));
  const auto handle = rig.handle(kId);
  REQUIRE(client.write(handle, 0, "0123") == Status::NFS4_OK);
  mds.reset();
  CHECK(client.read(handle, 0, 2).text == "01");  // needs nobody
  auto waiting = std::async(std::launch::async, [&] { return client.read(handle, 0, 100); });
  CHECK(waiting.wait_for(300ms) == std::future_status::timeout);

  class SameAddress final : public control::ServerEvents {
   public:
    void on_register(const layout::NetAddress&, control::Register,
                     control::Done<control::Registered> done) override {
      done(control::Registered{.cluster = {std::byte{0xC1}}, .ds_id = kId});
    }
    void on_connected(std::uint32_t) override {}
    void on_disconnected(std::uint32_t, const Error&) override {}
  };
  SameAddress events;
  rpc::peer::Table<std::uint32_t> requests;
  requests.on<control::Heartbeat>(
      [](std::uint32_t, const control::Heartbeat&, control::Done<control::Lease> done) {
        done(control::Lease{60});
      });
  requests.on<control::QuerySize>(
      [](std::uint32_t, control::QuerySize, control::Done<control::FileSize> done) {
        done(control::FileSize{4});
      });
  control::Server back({.listen = address, .keys = std::make_shared<rpc::peer::Keyring>(rig.key)},
                       events, std::move(requests));
  REQUIRE(back.start());
  const auto got = waiting.get();
  CHECK(got.text == "0123");
  CHECK(got.eof);
  CHECK(server->stop());
}

// As when its store is gone: whoever wrote there is to go on elsewhere, and soon.
TEST_CASE("what waits for a target ends when its server stops serving") {
  const test::TargetRig target_rig;
  auto target = std::make_unique<test::TargetChild>(target_rig);
  ServerRig rig;
  keep_objects_at(target_rig, rig);
  FakeMds mds(rig.key);
  const auto server = start_registered(rig, mds);
  DsClient client(server->ports().at(0));
  REQUIRE(client.write(rig.handle(kId, 1), 0, "x") == Status::NFS4_OK);
  target.reset();
  auto commit = std::async(std::launch::async, [&] {
    return client.call(rig.handle(kId, 1), {rpc::nfs4::Op::OP_COMMIT, rpc::nfs4::CommitArgs{}}, 9s);
  });
  CHECK(commit.wait_for(500ms) == std::future_status::timeout);
  const NoFileGrows broken;
  CHECK_FALSE(mds.fence({{.object = kServedObject, .epoch = 1}}));
  const auto ended = commit.get();
  REQUIRE(ended);
  CHECK(ended->status == Status::NFS4ERR_ACCESS);  // DELAY would bring it back here
}

// A write that failed at the target is maybe carried out yet.
TEST_CASE("a fence waits for a target that did not answer a write") {
  test::TargetRig target_rig;
  test::TargetChild target(target_rig);
  ServerRig rig;
  keep_objects_at(target_rig, rig);
  rig.config.target_patience = 1s;
  FakeMds mds(rig.key);
  const auto server = start_registered(rig, mds);
  DsClient client(server->ports().at(0));
  REQUIRE(client.read(rig.handle(kId, 1), 0, 1).status == Status::NFS4_OK);
  target.tell(SIGSTOP);
  CHECK(client.write(rig.handle(kId, 1), 0, "late") == Status::NFS4ERR_DELAY);
  auto fenced = std::async(std::launch::async,
                           [&] { return mds.fence({{.object = kServedObject, .epoch = 2}}); });
  CHECK(fenced.wait_for(500ms) == std::future_status::timeout);
  CHECK(client.write(rig.handle(kId, 1), 0, "more") == Status::NFS4ERR_ACCESS);
  target.tell(SIGCONT);
  CHECK(fenced.get());
  CHECK(client.write(rig.handle(kId, 2), 0, "next") == Status::NFS4_OK);
  CHECK(client.read(rig.handle(kId, 2), 0, 4).text == "next");
  CHECK(server->stop());
}

// Who asked for it has given it up: what is done after the fence is newer.
TEST_CASE("a fence of the metadata server waits for what it asked to change before") {
  test::TargetRig target_rig;
  test::TargetChild target(target_rig);
  ServerRig rig;
  keep_objects_at(target_rig, rig);
  FakeMds mds(rig.key);
  const auto server = start_registered(rig, mds);
  DsClient client(server->ports().at(0));
  REQUIRE(client.write(rig.handle(kId, 1), 0, "before") == Status::NFS4_OK);
  target.tell(SIGSTOP);
  const auto given_up = [&](const auto& change) {
    using Reply = std::remove_cvref_t<decltype(change)>::Reply;
    const auto asked =
        mds.ask<Reply>([&](auto done) { mds.server().call(kId, change, 100ms, std::move(done)); });
    CHECK(asked.error() == Errc::kTimedOut);
  };
  const control::Range range{kServedObject, 0, 6};
  SECTION("a hole") { given_up(control::Punch{range}); }
  SECTION("a cut") { given_up(control::Truncate{kServedObject, 0}); }
  SECTION("space") { given_up(control::Allocate{range}); }
  SECTION("space of a share") { given_up(control::AllocateShare{range, {4096, 1, 0, 0}}); }
  CHECK(mds.fence({{.object = kServedObject, .epoch = 1}}));  // clients do not wait for that
  // No handle is refused by it.
  auto fenced = std::async(std::launch::async, [&] {
    return mds.fence(
        {{.what = control::Fence::What::kClient, .client_id = control::kOwnClientId, .epoch = 0}});
  });
  CHECK(fenced.wait_for(500ms) == std::future_status::timeout);
  target.tell(SIGCONT);
  REQUIRE(fenced.get());
  REQUIRE(client.write(rig.handle(kId, 1), 0, "behind") == Status::NFS4_OK);
  CHECK(client.read(rig.handle(kId, 1), 0, 6).text == "behind");
  CHECK(server->stop());
}

}  // namespace
}  // namespace weft::ds
