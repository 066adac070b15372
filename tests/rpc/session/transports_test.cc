// Session client and server over real transports, TCP and shared memory, with several threads.
#include <unistd.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <chrono>
#include <filesystem>
#include <future>

#include "rpc/base/shared_memory.h"
#include "rpc/nfs4/payload_locator.h"
#include "rpc/session/session_client.h"
#include "rpc/session/session_server.h"
#include "rpc/transport/shm/bulk_channel.h"
#include "rpc/transport/shm/shm_server.h"
#include "rpc/transport/tcp_dialer.h"
#include "rpc/transport/tcp_server.h"
#include "tests/rpc/eventually.h"
#include "tests/rpc/session/memory_handler.h"

using namespace weft;
using namespace weft::rpc;
using nfs4::Op;
using nfs4::Status;
using std::chrono::milliseconds;
using test::eventually;

namespace {

enum class By { kTcp, kSharedMemory };

// Holds WRITEs, and the thread they come on, while it is told to. Finds no handle genuine likewise,
// at a glance.
class SlowHandler final : public OpHandler {
 public:
  explicit SlowHandler(BufferPool& pool) : inner(pool) {}
  void execute(Compound& compound, nfs4::OpArgs op, OpDone done) override {
    const bool held = hold && op.op == Op::OP_WRITE;
    if (held) ++holding;
    while (held && hold) std::this_thread::sleep_for(milliseconds(1));
    inner.execute(compound, std::move(op), std::move(done));
  }
  [[nodiscard]] bool genuine(std::span<const std::byte> /*handle*/) const override {
    return !forged;
  }
  test::MemoryHandler inner;
  std::atomic<bool> hold{false};
  std::atomic<bool> forged{false};
  std::atomic<int> holding{0};
};

struct System {
  explicit System(By transport = By::kTcp, unsigned threads = 2,
                  SessionServerOptions options = server_options())
      : by(transport),
        io(threads, false),
        client_io(1, false),
        slow(server_pool),
        sessions(std::move(options), slow, system_clock(), system_random()),
        server(io, server_pool, tcp_options(sessions),
               [this](std::shared_ptr<Channel> channel) { sessions.serve(std::move(channel)); }),
        local(io, server_pool,
              {.path = folder + "/socket", .mode = 0600, .users = {}, .limits = {}},
              [this](std::shared_ptr<Channel> channel) {
                sessions.serve(serve_bulk(std::move(channel), identity(), served));
              }) {
    std::filesystem::create_directories(folder);
    REQUIRE(server.listen());
    io.start();
    client_io.start();
    REQUIRE(local.listen());
  }
  ~System() {
    server.stop();
    local.stop();
    client_io.stop();
    io.stop();
    std::filesystem::remove_all(folder);
  }
  // Ends the client's newest connection.
  void cut() {
    std::shared_ptr<Channel> channel;
    {
      const std::scoped_lock lock(mutex);
      channel = newest.lock();
    }
    REQUIRE(channel != nullptr);
    channel->post([channel] { channel->close({Errc::kClosed, "cut"}, false); });
  }
  static ServerIdentity identity() {
    ServerIdentity id;
    id.fill(std::byte{7});
    return id;
  }

  static SessionServerOptions server_options() {
    SessionServerOptions options;
    options.server_major_id = "test-server";
    return options;
  }
  static TcpServerOptions tcp_options(const SessionServer& sessions) {
    TcpServerOptions options;
    options.address = "127.0.0.1";
    options.limits.locate_payload = nfs4::locate_payload;
    options.limits.pipe_from = std::size_t{64} << 10;
    options.limits.standing = Standing::kStranger;
    options.limits.look = [&sessions](auto head, Standing of) {
      return sessions.look_at(head, of);
    };
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
  Dial dial() {
    Dial by_tcp = tcp_dialer(client_io.context(0), pool, "127.0.0.1", server.port());
    return [this, dial = by == By::kTcp ? by_tcp
                                        : bulk_dialer(client_io.context(0), pool, local_options(),
                                                      sent)](auto done) {
      dial([this, done = std::move(done)](Result<std::shared_ptr<Channel>> made) mutable {
        {
          const std::scoped_lock lock(mutex);
          if (made) newest = *made;
        }
        done(std::move(made));
      });
    };
  }
  BulkDialOptions local_options() {
    BulkDialOptions options;
    options.shm.path = folder + "/socket";
    options.server = identity();
    return options;
  }

  const By by;
  const std::string folder = "/tmp/weft-session-test-" + std::to_string(::getpid());
  std::shared_ptr<Arena> arena =
      std::make_shared<Arena>(SharedMemory::create(std::size_t{512} << 20, "test").value());
  BufferPool pool{std::size_t{256} << 20, arena};  // the client's
  BufferPool server_pool{std::size_t{256} << 20};
  std::shared_ptr<BulkCounts> sent = std::make_shared<BulkCounts>();
  std::shared_ptr<BulkCounts> served = std::make_shared<BulkCounts>();
  std::mutex mutex;
  std::weak_ptr<Channel> newest;  // of the client; protected by mutex
  IoThreads io;
  IoThreads client_io;
  SlowHandler slow;
  test::MemoryHandler& handler = slow.inner;
  SessionServer sessions;
  TcpServer server;
  ShmServer local;
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

TEST_CASE("what a client writes it reads back, by TCP and through shared memory") {
  System system(GENERATE(By::kTcp, By::kSharedMemory));
  {
    SessionClient client(system.client_io.context(0), system.dial(), system.client_options());
    for (const std::size_t size : {std::size_t{1}, std::size_t{4095}, std::size_t{4096},
                                   std::size_t{70'001}, std::size_t{1} << 20}) {
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
    close(client);
  }
  CHECK(system.sessions.counts().sessions == 0);
  CHECK(system.sessions.counts().clients == 0);
  const std::uint64_t apart = system.by == By::kTcp ? 0 : 4096 + 70'001 + (std::uint64_t{1} << 20);
  CHECK(system.sent->to_server == apart);
  CHECK(system.served->to_server == apart);
  CHECK(system.sent->to_client == apart);
  CHECK(system.served->to_client == apart);
}

TEST_CASE("many calls over several connections and threads all complete") {
  System system(GENERATE(By::kTcp, By::kSharedMemory), 3);
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
  System system(GENERATE(By::kTcp, By::kSharedMemory));
  SessionClient client(system.client_io.context(0), system.dial(), system.client_options());
  REQUIRE(call(client, read_ops("a", 0, 1)));
  CHECK(system.sessions.counts().connections == 1);
  std::promise<void> drained;
  system.sessions.drain([&drained] { drained.set_value(); });
  REQUIRE(drained.get_future().wait_for(std::chrono::seconds(5)) == std::future_status::ready);
  // The client dials anew, and is closed each time.
  CHECK(eventually([&] { return system.sessions.counts().connections == 0; }));
}

TEST_CASE("shared memory gives its pages back when calls are answered, and when it is cut") {
  System system(By::kSharedMemory);
  {
    SessionClient client(system.client_io.context(0), system.dial(), system.client_options());
    for (int i = 0; i < 20; ++i) {
      REQUIRE(call(client, write_ops(system.pool, "a", 0, 1 << 20)));
      REQUIRE(call(client, read_ops("a", 0, 1 << 20)));
    }
    CHECK(eventually([&] { return system.pool.in_use_bytes() < (1U << 20); }));
    system.cut();
    REQUIRE(call(client, read_ops("a", 0, 1 << 20)));
    close(client);
  }
  CHECK(eventually([&] { return system.pool.in_use_bytes() == 0; }));
}

TEST_CASE("a call under way when shared memory is cut is executed once, and answered") {
  System system(By::kSharedMemory, 1);
  SessionClient client(system.client_io.context(0), system.dial(), system.client_options());
  REQUIRE(call(client, read_ops("a", 0, 1)));
  system.slow.hold = true;
  std::promise<Result<nfs4::CompoundResult>> promise;
  // Not idempotent: only the slot's memory can make it succeed.
  client.call(
      write_ops(system.pool, "a", 0, 65536), {.deadline = milliseconds(20'000)},
      [&promise](Result<nfs4::CompoundResult> result) { promise.set_value(std::move(result)); });
  REQUIRE(eventually([&] { return system.slow.holding == 1; }));
  system.cut();
  // The server's one thread is in the call: it answers before it takes the next connection.
  system.slow.hold = false;
  const auto result = promise.get_future().get();
  REQUIRE(result);
  CHECK(result->status == Status::NFS4_OK);
  CHECK(system.handler.writes_at()[0] == 1);
  CHECK(system.sessions.counts().replays == 1);
  close(client);
}

TEST_CASE("without memory for room a READ comes through the ring") {
  System system(By::kSharedMemory);
  SessionClient client(system.client_io.context(0), system.dial(), system.client_options());
  REQUIRE(call(client, write_ops(system.pool, "a", 0, 1 << 20)));
  REQUIRE(eventually([&] { return system.pool.in_use_bytes() < (1U << 20); }));
  std::vector<Buffer> all;  // but what answers are received into
  while (system.pool.in_use_bytes() + (std::size_t{8} << 20) < system.pool.limit_bytes()) {
    all.push_back(system.pool.allocate(std::size_t{1} << 20).value());
  }
  const std::uint64_t before = system.sent->to_client;
  for (int i = 0; i < 5; ++i) {
    auto read = call(client, read_ops("a", 0, 1 << 20));
    REQUIRE(read);
    auto* ok = read->get<nfs4::ReadOk>(1);
    REQUIRE(ok != nullptr);
    CHECK(ok->data.size() == std::size_t{1} << 20);
  }
  CHECK(system.sent->to_client == before);
  all.clear();
  close(client);
}

TEST_CASE("a server that is another than the path was thought to lead to is not used") {
  System system(By::kSharedMemory);
  BulkDialOptions options = system.local_options();
  options.server.fill(std::byte{8});
  SessionClient client(system.client_io.context(0),
                       bulk_dialer(system.client_io.context(0), system.pool, options, system.sent),
                       system.client_options());
  const auto result = call(client, read_ops("a", 0, 1), {.deadline = milliseconds(300)});
  REQUIRE_FALSE(result);
  CHECK(result.error() == Errc::kStale);
}

TEST_CASE("a large request over a new connection, whose session is gone, is told so") {
  auto options = System::server_options();
  options.lease = std::chrono::seconds(1);
  System system(By::kTcp, 2, options);
  SessionClient client(system.client_io.context(0), system.dial(), system.client_options());
  REQUIRE(call(client, write_ops(system.pool, "file", 0, 500'000)));
  std::this_thread::sleep_for(milliseconds(1100));
  system.sessions.expire();
  REQUIRE(system.sessions.counts().sessions == 0);
  system.cut();
  // What is sent first over the new connection is this.
  const auto written = call(client, write_ops(system.pool, "file", 0, 500'000),
                            {.deadline = milliseconds(10'000), .idempotent = true});
  REQUIRE(written);
  CHECK(written->status == Status::NFS4_OK);
  close(client);
}

TEST_CASE("a large request over a new connection is taken when its session stands") {
  System system(By::kTcp);
  SessionClient client(system.client_io.context(0), system.dial(), system.client_options());
  REQUIRE(call(client, write_ops(system.pool, "file", 0, 500'000)));
  for (int i = 0; i < 5; ++i) {
    system.cut();
    const auto written = call(client, write_ops(system.pool, "file", 0, 500'000));
    REQUIRE(written);
    CHECK(written->status == Status::NFS4_OK);
  }
  CHECK(system.sessions.counts().sessions == 1);
  close(client);
}

TEST_CASE("a large WRITE is not received when its handle is not genuine, and the session goes on") {
  System system(By::kTcp);
  SessionClient client(system.client_io.context(0), system.dial(), system.client_options());
  const auto write = [&](std::size_t size) {
    const auto written = call(client, write_ops(system.pool, "file", 0, size));
    REQUIRE(written);
    return written->status;
  };
  const bool known = GENERATE(true, false);
  REQUIRE(write(100) == Status::NFS4_OK);
  if (!known) system.cut();
  for (const std::size_t size : {8192, 500'000}) {
    // This handler takes the handle after all, as if the key had come in between.
    system.slow.forged = true;
    CHECK(write(size) == Status::NFS4ERR_DELAY);
    system.slow.forged = false;
    CHECK(write(size) == Status::NFS4_OK);
  }
  system.slow.forged = true;
  CHECK(write(2000) == Status::NFS4_OK);  // small: it is not looked at
  CHECK(call(client, read_ops("file", 0, 1 << 20)).value().status == Status::NFS4_OK);
  CHECK(system.handler.executed(Op::OP_WRITE) == 4);
  CHECK(system.sessions.counts().sessions == 1);
  close(client);
}
