// The whole data server over TCP, without a metadata server.
#include "dataserver/main/data_server.h"

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <boost/asio/ip/tcp.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <sstream>

#include "rpc/transport/rdma/devices.h"
#include "tests/dataserver/main/server_rig.h"

namespace weft::ds {
namespace {

using rpc::nfs4::Status;
using test::DsClient;
using test::ServerRig;

TEST_CASE("bytes written over TCP are read back, small and large, warm and through sendfile") {
  ServerRig rig;
  rig.config.store.mode = GENERATE(IoMode::kBuffered, IoMode::kDirect);
  const auto server = rig.start();
  DsClient client(server->ports().at(0));
  const auto handle = rig.handle();
  std::string expected(3 << 20, '\0');
  for (std::size_t i = 0; i < expected.size(); ++i) {
    expected[i] = static_cast<char>(i * 7 + (i >> 11));
  }
  for (std::size_t at = 0; at < expected.size(); at += 1 << 20) {
    REQUIRE(client.write(handle, at, expected.substr(at, 1 << 20)) == Status::NFS4_OK);
  }
  REQUIRE(client.commit(handle).has_value());
  for (std::size_t at = 0; at < expected.size(); at += 1 << 20) {
    REQUIRE(client.read(handle, at, 1 << 20).text == expected.substr(at, 1 << 20));
  }
  for (const std::size_t at : {0UL, 4096UL, 4097UL, 1'000'000UL}) {
    for (const std::uint32_t size : {1U, 4096U, 70'001U}) {
      REQUIRE(client.read(handle, at, size).text == expected.substr(at, size));
    }
  }
  const auto last = client.read(handle, (3 << 20) - 10, 100);
  CHECK(last.text.size() == 10);
  CHECK(last.eof);
  CHECK(server->stop());
}

// What is logged while it is there.
class Log {
 public:
  Log() {
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(text_);
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", std::move(sink)));
  }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  ~Log() { spdlog::set_default_logger(before_); }
  [[nodiscard]] std::size_t count(std::string_view what) const {
    std::size_t found = 0;
    const std::string text = text_.str();
    for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
    return found;
  }

 private:
  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  std::ostringstream text_;
};

TEST_CASE("without a device for RDMA a server says so once, and serves by TCP") {
  if (rpc::rdma::Devices::any()) SKIP("this machine has an RDMA device");
  ServerRig rig;
  rig.config.listen_rdma = {layout::make_address("127.0.0.1", rpc::rdma::kPort).value()};
  const Log log;
  const auto server = rig.start();
  REQUIRE(server->listening());
  for (int i = 0; i < 60; ++i) REQUIRE(server->tick());
  CHECK(log.count("event=no_rdma") == 1);
  DsClient client(server->ports().at(0));
  const auto handle = rig.handle();
  const std::string data(1 << 20, 'r');
  REQUIRE(client.write(handle, 0, data) == Status::NFS4_OK);
  CHECK(client.read(handle, 0, 1 << 20).text == data);
  CHECK(server->stop());
}

TEST_CASE("the server says that it is a data server, and which") {
  const ServerRig one;
  const ServerRig other;
  const auto server = one.start();
  const auto second = other.start();
  DsClient client(server->ports().at(0));
  DsClient client_of_second(second->ports().at(0));
  client.read(one.handle(), 0, 1);
  client_of_second.read(other.handle(), 0, 1);
  CHECK((client.server().flags & rpc::nfs4::EXCHGID4_FLAG_MASK_PNFS) ==
        rpc::nfs4::EXCHGID4_FLAG_USE_PNFS_DS);
  CHECK(client.server().server_major_id != client_of_second.server().server_major_id);
  CHECK(client.server().client_id != client_of_second.server().client_id);
}

TEST_CASE("the verifier and all data live through an orderly restart") {
  const ServerRig rig;
  const auto handle = rig.handle();
  rpc::nfs4::WriteOk before;
  {
    const auto server = rig.start();
    DsClient client(server->ports().at(0));
    REQUIRE(client.write(handle, 0, "unstable", &before) == Status::NFS4_OK);
    CHECK(server->stop());
  }
  const auto server = rig.start();
  DsClient client(server->ports().at(0));
  CHECK(client.commit(handle) == before.verifier);
  CHECK(client.read(handle, 0, 100).text == "unstable");
}

// What a machine without power looks like: its end of the connection is never closed.
TEST_CASE("a peer that never closes its connection does not keep a server from stopping in order") {
  ServerRig rig;
  rig.config.drain = std::chrono::seconds(0);
  const auto server = rig.start();
  boost::asio::io_context context;
  boost::asio::ip::tcp::socket peer(context);
  peer.connect({boost::asio::ip::make_address("127.0.0.1"), server->ports().at(0)});
  DsClient client(server->ports().at(0));
  REQUIRE(client.write(rig.handle(), 0, "x") == Status::NFS4_OK);
  CHECK(server->stop());
}

TEST_CASE("handles of another key, another data server, or for reading only are refused") {
  const ServerRig rig;
  const ServerRig stranger;
  const auto server = rig.start();
  DsClient client(server->ports().at(0));
  CHECK(client.write(stranger.handle(), 0, "x") == Status::NFS4ERR_BADHANDLE);
  CHECK(client.write(rig.handle(8), 0, "x") == Status::NFS4ERR_STALE);
  CHECK(client.write(rig.handle(7, 0, layout::Access::kRead), 0, "x") == Status::NFS4ERR_ACCESS);
  CHECK(client.read(rig.handle(7, 0, layout::Access::kRead), 0, 1).status == Status::NFS4_OK);
}

TEST_CASE("what a refused write brings is thrown away, and the connection stays in step") {
  ServerRig rig;
  rig.config.store.mode = GENERATE(IoMode::kBuffered, IoMode::kDirect);
  const auto server = rig.start();
  DsClient client(server->ports().at(0));
  const auto handle = rig.handle();
  const auto reader = rig.handle(7, 0, layout::Access::kRead);
  const std::string megabyte(1 << 20, 'm');
  for (int i = 0; i < 70; ++i) {  // more than there are pipes
    REQUIRE(client.write(rig.handle(8), 0, megabyte) == Status::NFS4ERR_STALE);
    REQUIRE(client.write(reader, 0, megabyte) == Status::NFS4ERR_ACCESS);
  }
  CHECK(client.read(handle, 0, 10).text.empty());
  REQUIRE(client.write(handle, 3, megabyte) == Status::NFS4_OK);
  REQUIRE(client.write(handle, UINT64_MAX - 10, megabyte) != Status::NFS4_OK);
  CHECK(client.read(handle, 3, 1 << 20).text == megabyte);
  CHECK(server->stop());
}

TEST_CASE("many clients at once, each with its own bytes") {
  const ServerRig rig;
  const auto server = rig.start();
  const auto handle = rig.handle();
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      DsClient client(server->ports().at(0), "client-" + std::to_string(i));
      const std::string mine(100'000, static_cast<char>('a' + i));
      const std::uint64_t at = static_cast<std::uint64_t>(i) * 100'000;
      for (int round = 0; round < 20; ++round) {
        if (client.write(handle, at, mine) != Status::NFS4_OK) return;
        if (client.read(handle, at, 100'000).text != mine) return;
      }
      if (client.commit(handle)) ++good;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(good == 8);
  CHECK(server->stop());
}

TEST_CASE("a second process on the same store is refused") {
  const ServerRig rig;
  const auto server = rig.start();
  CHECK(DataServer::open(rig.config, DataServer::Standalone{7}).error() == Errc::kBusy);
}

}  // namespace
}  // namespace weft::ds
