// A data server and a metadata server's end of the control protocol, over TCP.
#include "dataserver/main/control_link.h"

#include <catch2/catch_test_macros.hpp>

#include "tests/dataserver/main/fake_mds.h"

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

TEST_CASE("truncate, stat, allocate, punch and remove come from the metadata server") {
  ServerRig rig;
  FakeMds mds(rig.key);
  const auto server = start_registered(rig, mds);
  control::Server& to = mds.server();
  const auto stat = [&] {
    return mds.ask<control::ObjectStat>(
        [&](auto done) { to.stat(kId, kServedObject, 5s, std::move(done)); });
  };
  CHECK_FALSE(stat()->exists);
  const auto cut = mds.ask<control::ObjectStat>(
      [&](auto done) { to.truncate(kId, kServedObject, 1000, 5s, std::move(done)); });
  CHECK(cut->size == 1000);
  CHECK(mds.ask<void>(
      [&](auto done) { to.allocate(kId, {kServedObject, 0, 1 << 20}, 5s, std::move(done)); }));
  CHECK(stat()->size == 1 << 20);
  CHECK(stat()->allocated >= 1 << 20);
  CHECK(mds.ask<void>(
      [&](auto done) { to.punch(kId, {kServedObject, 0, 1 << 20}, 5s, std::move(done)); }));
  CHECK(stat()->allocated < 65536);
  CHECK(mds.ask<void>([&](auto done) {
    to.remove(kId, {kServedObject, {.fileid = 999, .generation = 1}}, 5s, std::move(done));
  }));
  CHECK_FALSE(stat()->exists);
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
    control::Lease on_heartbeat(std::uint32_t, const control::Heartbeat&) override { return {60}; }
    void on_query_size(std::uint32_t, const layout::ObjectId&,
                       control::Done<control::FileSize> done) override {
      done(control::FileSize{4});
    }
    void on_report_size(std::uint32_t, const control::ReportSize&,
                        control::Done<void> done) override {
      done({});
    }
  };
  SameAddress events;
  control::Server back({.listen = address, .key = rig.key}, events);
  REQUIRE(back.start());
  const auto got = waiting.get();
  CHECK(got.text == "0123");
  CHECK(got.eof);
  CHECK(server->stop());
}

}  // namespace
}  // namespace weft::ds
