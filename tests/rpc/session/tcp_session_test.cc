// Session client and server over real TCP, with several threads.
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <future>

#include "rpc/nfs4/payload_locator.h"
#include "rpc/session/session_client.h"
#include "rpc/session/session_server.h"
#include "rpc/transport/tcp_dialer.h"
#include "rpc/transport/tcp_server.h"
#include "tests/rpc/session/memory_handler.h"

using namespace weft;
using namespace weft::rpc;
using nfs4::Op;
using nfs4::Status;
using std::chrono::milliseconds;

namespace {

struct System {
  explicit System(unsigned threads = 2, SessionServerOptions options = server_options())
      : io(threads, false),
        client_io(1, false),
        handler(pool),
        sessions(std::move(options), handler, system_clock(), system_random()),
        server(io, pool, tcp_options(),
               [this](std::shared_ptr<Channel> channel) { sessions.serve(std::move(channel)); }) {
    REQUIRE(server.listen());
    io.start();
    client_io.start();
  }
  ~System() {
    server.stop();
    client_io.stop();
    io.stop();
  }

  static SessionServerOptions server_options() {
    SessionServerOptions options;
    options.server_major_id = "test-server";
    return options;
  }
  static TcpServerOptions tcp_options() {
    TcpServerOptions options;
    options.address = "127.0.0.1";
    options.limits.locate_payload = nfs4::locate_payload;
    options.limits.pipe_from = std::size_t{64} << 10;
    return options;
  }
  SessionClientOptions client_options() {
    SessionClientOptions options;
    options.owner = "test-client";
    options.verifier = 1;
    options.flags = nfs4::EXCHGID4_FLAG_USE_PNFS_DS;
    options.credential.uid = options.credential.gid = 0;
    return options;
  }
  Dial dial() { return tcp_dialer(client_io.context(0), pool, "127.0.0.1", server.port()); }

  BufferPool pool{std::size_t{256} << 20};
  IoThreads io;
  IoThreads client_io;
  test::MemoryHandler handler;
  SessionServer sessions;
  TcpServer server;
};

nfs4::OpArgs put_fh(std::string_view name) {
  return {Op::OP_PUTFH, nfs4::PutFhArgs{nfs4::FileHandle(std::as_bytes(std::span(name)))}};
}

std::vector<nfs4::OpArgs> write_ops(BufferPool& pool, std::string_view file, std::uint64_t offset,
                                    std::size_t size) {
  auto data = pool.allocate(size);
  REQUIRE(data);
  for (std::size_t i = 0; i < size; ++i) {
    data->data()[i] = static_cast<std::byte>((offset + i) * 31 >> 3);
  }
  nfs4::WriteArgs write;
  write.offset = offset;
  write.data.push_back(std::move(*data));
  std::vector<nfs4::OpArgs> ops;
  ops.push_back(put_fh(file));
  ops.push_back({Op::OP_WRITE, std::move(write)});
  return ops;
}

std::vector<nfs4::OpArgs> read_ops(std::string_view file, std::uint64_t offset,
                                   std::uint32_t count) {
  std::vector<nfs4::OpArgs> ops;
  ops.push_back(put_fh(file));
  ops.push_back({Op::OP_READ, nfs4::ReadArgs{{}, offset, count}});
  return ops;
}

Result<nfs4::CompoundResult> call(SessionClient& client, std::vector<nfs4::OpArgs> ops,
                                  CallOptions options = {}) {
  std::promise<Result<nfs4::CompoundResult>> promise;
  client.call(std::move(ops), options, [&promise](Result<nfs4::CompoundResult> result) {
    promise.set_value(std::move(result));
  });
  return promise.get_future().get();
}

void close(SessionClient& client) {
  std::promise<void> promise;
  client.close([&promise] { promise.set_value(); });
  promise.get_future().get();
}

}  // namespace

TEST_CASE("what a client writes over TCP it reads back") {
  System system;
  {
    SessionClient client(system.client_io.context(0), system.dial(), system.client_options());
    for (const std::size_t size : {std::size_t{1}, std::size_t{4096}, std::size_t{1} << 20}) {
      auto wrote = call(client, write_ops(system.pool, "a", 0, size));
      REQUIRE(wrote);
      REQUIRE(wrote->status == Status::NFS4_OK);
      auto* ok = wrote->get<nfs4::WriteOk>(1);
      REQUIRE(ok != nullptr);
      CHECK(ok->count == size);
      auto read = call(client, read_ops("a", 0, static_cast<std::uint32_t>(size)));
      REQUIRE(read);
      auto* data = read->get<nfs4::ReadOk>(1);
      REQUIRE(data != nullptr);
      REQUIRE(data->data.size() == size);
      CHECK(data->eof);
      const auto bytes = data->data.flatten();
      REQUIRE(bytes);
      for (std::size_t i = 0; i < size; ++i) {
        if ((*bytes)[i] != static_cast<std::byte>(i * 31 >> 3)) FAIL("wrong byte at " << i);
      }
    }
    CHECK(client.server().server_major_id.size() == 11);
    CHECK(client.fore_attributes().max_requests == 64);
    close(client);
  }
  CHECK(system.sessions.counts().sessions == 0);
  CHECK(system.sessions.counts().clients == 0);
}

TEST_CASE("many calls over several connections and threads all complete") {
  System system(3);
  auto options = system.client_options();
  options.connections = 3;
  SessionClient client(system.client_io.context(0), system.dial(), options);
  constexpr int kCalls = 600;
  std::atomic<int> good{0};
  std::atomic<int> left{kCalls};
  std::promise<void> all;
  for (int i = 0; i < kCalls; ++i) {
    client.call(write_ops(system.pool, "b", static_cast<std::uint64_t>(i) * 4096, 4096), {},
                [&](Result<nfs4::CompoundResult> result) {
                  if (result && result->status == Status::NFS4_OK) ++good;
                  if (--left == 0) all.set_value();
                });
  }
  all.get_future().get();
  CHECK(good == kCalls);
  const auto writes = system.handler.writes_at();
  CHECK(writes.size() == kCalls);
  for (const auto& [offset, times] : writes) CHECK(times == 1);
  close(client);
}

TEST_CASE("a client whose server is not there hears so in its deadline") {
  System system;
  SessionClient client(system.client_io.context(0),
                       tcp_dialer(system.client_io.context(0), system.pool, "127.0.0.1", 1),
                       system.client_options());
  const auto result = call(client, read_ops("a", 0, 1), {.deadline = milliseconds(300)});
  REQUIRE_FALSE(result);
  CHECK(result.error() == Errc::kUnreachable);
}

TEST_CASE("draining answers what runs and closes every connection") {
  System system;
  SessionClient client(system.client_io.context(0), system.dial(), system.client_options());
  REQUIRE(call(client, read_ops("a", 0, 1)));
  CHECK(system.sessions.counts().connections == 1);
  std::promise<void> drained;
  system.sessions.drain([&drained] { drained.set_value(); });
  REQUIRE(drained.get_future().wait_for(std::chrono::seconds(5)) == std::future_status::ready);
  CHECK(system.sessions.counts().connections == 0);
}
