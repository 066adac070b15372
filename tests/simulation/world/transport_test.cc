// The product's own transport and sessions over the simulated network, whose connections break.
#include <unistd.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <future>
#include <map>
#include <optional>
#include <thread>

#include "rpc/nfs4/payload_locator.h"
#include "rpc/session/session_client.h"
#include "rpc/session/session_server.h"
#include "rpc/transport/tcp_dialer.h"
#include "rpc/transport/tcp_server.h"
#include "tests/rpc/session/memory_handler.h"
#include "tests/simulation/world/fork.h"
#include "tests/simulation/world/network.h"

namespace weft::sim {
namespace {

using namespace weft::rpc;
using nfs4::Op;
using nfs4::Status;
using std::chrono::milliseconds;

constexpr std::uint16_t kPort = 2049;
constexpr unsigned kServer = 0;
constexpr unsigned kClient = 1;

// Payloads come in pipes where the channel may use them, and go to the handler as bytes.
class BufferingHandler final : public OpHandler {
 public:
  explicit BufferingHandler(BufferPool& pool) : inner(pool) {}
  void execute(Compound& compound, nfs4::OpArgs op, OpDone done) override {
    auto* write = std::get_if<nfs4::WriteArgs>(&op.args);
    piped += write != nullptr && !write->piped.empty() ? 1 : 0;
    inner.execute(compound, std::move(op), std::move(done));
  }
  test::MemoryHandler inner;
  std::atomic<int> piped{0};
};

struct Server {
  Server()
      : io(2, false),
        handler(pool),
        sessions({.server_major_id = "test-server"}, handler, system_clock(), system_random()),
        server(io, pool, options(),
               [this](std::shared_ptr<Channel> channel) { sessions.serve(std::move(channel)); }) {
    SIM_CHECK(server.listen());
    io.start();
  }
  ~Server() {
    server.stop();
    io.stop();
  }
  static TcpServerOptions options() {
    TcpServerOptions options;
    options.address = network::address(kServer);
    options.port = kPort;
    options.limits.locate_payload = nfs4::locate_payload;
    options.limits.pipe_from = std::size_t{64} << 10;
    return options;
  }
  BufferPool pool{std::size_t{64} << 20};
  IoThreads io;
  BufferingHandler handler;
  SessionServer sessions;
  TcpServer server;
};

struct Client {
  Client() : io(1, false) {
    SessionClientOptions options;
    options.owner = "test-client";
    options.verifier = 1;
    options.connections = 2;
    io.start();
    client.emplace(io.context(0), tcp_dialer(io.context(0), pool, network::address(kServer), kPort),
                   options);
  }
  ~Client() {
    client.reset();
    io.stop();
  }
  Result<nfs4::CompoundResult> call(nfs4::OpArgs op, CallOptions options = {}) {
    std::vector<nfs4::OpArgs> ops;
    const std::string_view name = "a";
    ops.push_back(
        {Op::OP_PUTFH, nfs4::PutFhArgs{nfs4::FileHandle(std::as_bytes(std::span(name)))}});
    ops.push_back(std::move(op));
    std::promise<Result<nfs4::CompoundResult>> promise;
    client->call(std::move(ops), options, [&promise](Result<nfs4::CompoundResult> result) {
      promise.set_value(std::move(result));
    });
    return promise.get_future().get();
  }
  bool write(std::uint64_t offset, std::size_t size, CallOptions options = {}) {
    auto data = pool.allocate(size);
    SIM_CHECK(data);
    for (std::size_t i = 0; i < size; ++i) data->data()[i] = byte_at(offset + i);
    nfs4::WriteArgs args;
    args.offset = offset;
    args.data.push_back(std::move(*data));
    auto result = call({Op::OP_WRITE, std::move(args)}, options);
    return result && result->status == Status::NFS4_OK;
  }
  void require_reads_back(std::uint64_t offset, std::size_t size) {
    auto result = call({Op::OP_READ, nfs4::ReadArgs{{}, offset, static_cast<std::uint32_t>(size)}},
                       {.idempotent = true});
    SIM_CHECK(result && result->status == Status::NFS4_OK);
    auto* ok = result->get<nfs4::ReadOk>(1);
    SIM_CHECK(ok != nullptr && ok->data.size() == size);
    const auto bytes = ok->data.flatten();
    SIM_CHECK(bytes);
    for (std::size_t i = 0; i < size; ++i) SIM_CHECK((*bytes)[i] == byte_at(offset + i));
  }
  static std::byte byte_at(std::uint64_t at) { return static_cast<std::byte>(at * 31 >> 3); }

  BufferPool pool{std::size_t{64} << 20};
  IoThreads io;
  std::optional<SessionClient> client;
};

template <class T>
std::unique_ptr<T> on_node(unsigned node) {
  const unsigned before = sim::node();
  enter_node(node);
  auto made = std::make_unique<T>();
  enter_node(before);
  return made;
}

void require_all_seeds(std::uint64_t seeds, const std::function<void()>& body) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    INFO("seed " << seed);
    const Outcome once = in_simulation(seed, body);
    REQUIRE(once.status == 0);
    if (seed % 10 == 0) REQUIRE(in_simulation(seed, body) == once);
  }
}

// Ends of connections and cuts, of a length below what a call waits.
void disturb(const std::atomic<bool>& over) {
  while (!over) {
    sleep_until(now() + static_cast<Ns>(choose(30 * kMillisecond)));
    switch (choose(4)) {
      case 0: network::reset_connections(kClient); break;
      case 1: network::cut(kClient, kServer); break;
      case 2: network::cut_one_way(kServer, kClient); break;
      case 3: network::cut_one_way(kClient, kServer); break;
    }
    sleep_until(now() + static_cast<Ns>(choose(2 * kSecond)));
    network::heal_all();
  }
}

// How a child ends in which all was well, but no payload came in a pipe.
constexpr int kNothingPiped = 10;

void write_and_read() {
  auto server = on_node<Server>(kServer);
  auto client = on_node<Client>(kClient);
  std::uint64_t offset = 0;
  for (const std::size_t size : {1U, 4095U, 70'001U, 1U << 20}) {
    SIM_CHECK(client->write(offset, size));
    client->require_reads_back(offset, size);
    offset += size;
  }
  const bool piped = server->handler.piped > 0;
  client.reset();
  server.reset();
  if (!piped) ::_exit(kNothingPiped);
}

}  // namespace

TEST_CASE("what a session client writes it reads back over the simulated network") {
  int nothing_piped = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    INFO("seed " << seed);
    const int status = in_simulation(seed, write_and_read).status;
    nothing_piped += status == kNothingPiped ? 1 : 0;
    REQUIRE((status == 0 || status == kNothingPiped));
  }
  // A pipe that seems full makes the rest of a connection go to memory; that is rare.
  CHECK(nothing_piped < 10);
}

TEST_CASE("a write that was answered has happened once, whatever becomes of connections") {
  require_all_seeds(200, [] {
    auto server = on_node<Server>(kServer);
    auto client = on_node<Client>(kClient);
    std::atomic<bool> over = false;
    std::thread faults([&over] { disturb(over); });
    std::vector<std::thread> writers;
    std::atomic<int> good = 0;
    for (unsigned w = 0; w < 3; ++w) {
      writers.emplace_back([&, w] {
        for (unsigned i = 0; i < 6; ++i) {
          const std::uint64_t offset = (w * 6 + i) * (std::uint64_t{1} << 18);
          const std::size_t size = choose(2) == 0 ? 4096 : 200'000;
          if (!client->write(offset, size)) continue;
          ++good;
          client->require_reads_back(offset, size);
        }
      });
    }
    for (auto& writer : writers) writer.join();
    over = true;
    faults.join();
    for (const auto& [offset, times] : server->handler.inner.writes_at()) SIM_CHECK(times == 1);
    SIM_CHECK(good > 12);
    client.reset();
    server.reset();
  });
}

TEST_CASE("a client goes on with the server's next life") {
  require_all_seeds(50, [] {
    auto server = on_node<Server>(kServer);
    auto client = on_node<Client>(kClient);
    SIM_CHECK(client->write(0, 100'000));
    network::kill(kServer);
    server.reset();
    std::thread later([] {
      sleep_until(now() + static_cast<Ns>(choose(5 * kSecond)));
      network::revive(kServer);
    });
    later.join();
    server = on_node<Server>(kServer);
    SIM_CHECK(client->write(0, 100'000, {.idempotent = true}));
    client->require_reads_back(0, 100'000);
    client.reset();
    server.reset();
  });
}

}  // namespace weft::sim
