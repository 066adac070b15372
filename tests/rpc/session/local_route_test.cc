// How a session comes to shared memory, to TCP, and back.
#include "rpc/session/local_route.h"

#include <unistd.h>

#include <boost/asio/post.hpp>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <future>

#include "rpc/base/shared_memory.h"
#include "rpc/session/session_client.h"
#include "rpc/session/session_server.h"
#include "rpc/transport/shm/shm_server.h"
#include "rpc/transport/tcp_dialer.h"
#include "rpc/transport/tcp_server.h"
#include "tests/rpc/eventually.h"
#include "tests/rpc/session/memory_handler.h"

using namespace weft;
using namespace weft::rpc;
using test::eventually;
using namespace std::chrono_literals;
using nfs4::Op;

namespace {

struct Host {
  Host()
      : sessions(options(), handler, system_clock(), system_random()),
        tcp(threads, server_pool, tcp_options(),
            [this](std::shared_ptr<Channel> channel) { sessions.serve(std::move(channel)); }) {
    std::filesystem::create_directories(folder);
    endpoint = {.machine = this_machine(), .user = ::geteuid(), .socket = folder + "/socket"};
    REQUIRE(tcp.listen());
    threads.start();
    client_threads.start();
    make_route();
  }
  ~Host() {
    close_client();
    on_thread([this] { route.reset(); });
    client_threads.stop();
    tcp.stop();
    unlisten();
    threads.stop();
    std::filesystem::remove_all(folder);
  }
  static SessionServerOptions options() {
    SessionServerOptions out;
    out.server_major_id = "host";
    return out;
  }
  static TcpServerOptions tcp_options() {
    TcpServerOptions out;
    out.address = "127.0.0.1";
    return out;
  }
  void make_route() {
    auto& context = client_threads.context(0);
    route = std::make_shared<LocalRoute>(
        LocalRoute::Parts{.context = context,
                          .pool = pool,
                          .name = "host",
                          .where =
                              [this] {
                                const std::scoped_lock lock(mutex);
                                return endpoint;
                              },
                          .server = identity,
                          .network = tcp_dialer(context, pool, "127.0.0.1", tcp.port()),
                          .connect_deadline = 500ms,
                          .now = [this] { return LocalRoute::Clock::now() + ahead.load(); }});
  }
  // The server's end of shared memory.
  void listen(ServerIdentity as = {}) {
    local = std::make_unique<ShmServer>(
        threads, server_pool,
        ShmServerOptions{.path = endpoint.socket, .mode = 0600, .users = {}, .limits = {}},
        [this, as](std::shared_ptr<Channel> channel) {
          auto bulk = serve_bulk(std::move(channel), as, served);
          {
            const std::scoped_lock lock(mutex);
            accepted.push_back(bulk);
          }
          sessions.serve(std::move(bulk));
        });
    REQUIRE(local->listen());
  }
  // Nobody listens any more, and the connections there are end.
  void unlisten(Error why = {Errc::kClosed, "down"}) {
    if (local == nullptr) return;
    local->stop();
    local.reset();
    std::vector<std::weak_ptr<Channel>> open;
    {
      const std::scoped_lock lock(mutex);
      open = std::exchange(accepted, {});
    }
    for (const auto& weak : open) {
      if (const auto channel = weak.lock()) {
        channel->post([channel, why] { channel->close(why, false); });
      }
    }
  }
  void connect() {
    SessionClientOptions client_options;
    client_options.owner = "mds";
    client_options.verifier = 1;
    client_options.reconnect_least = 1ms;
    client_options.reconnect_most = 5ms;
    client.emplace(client_threads.context(0), route->dial(), client_options);
  }
  void close_client() {
    if (!client) return;
    client.reset();
    on_thread([] {});
  }
  void on_thread(std::move_only_function<void()> work) {
    std::promise<void> done;
    boost::asio::post(client_threads.context(0), [&] {
      work();
      done.set_value();
    });
    done.get_future().wait();
  }
  // Writes something and reads it again.
  void use() {
    constexpr std::size_t kSize = 100'000;
    const auto fill = static_cast<char>('a' + uses++ % 26);
    for (const bool write : {true, false}) {
      std::vector<nfs4::OpArgs> ops;
      ops.push_back({Op::OP_PUTFH, nfs4::PutFhArgs{}});
      if (write) {
        nfs4::WriteArgs args;
        args.data.push_back(pool.allocate(kSize).value());
        std::ranges::fill(args.data[0].span(), static_cast<std::byte>(fill));
        ops.push_back({Op::OP_WRITE, std::move(args)});
      } else {
        ops.push_back({Op::OP_READ, nfs4::ReadArgs{{}, 0, kSize}});
      }
      std::promise<Result<nfs4::CompoundResult>> answer;
      client->call(std::move(ops), {.deadline = 10s, .idempotent = true},
                   [&](Result<nfs4::CompoundResult> got) { answer.set_value(std::move(got)); });
      auto got = answer.get_future().get();
      REQUIRE(got);
      REQUIRE(got->status == nfs4::Status::NFS4_OK);
      if (write) continue;
      const auto bytes = got->get<nfs4::ReadOk>(1)->data.flatten().value();
      REQUIRE(bytes == std::vector<std::byte>(kSize, static_cast<std::byte>(fill)));
    }
  }
  // As ServerSessions does with each call. True if it found shared memory.
  bool look() {
    if (!route->wants_look()) return false;
    auto found = std::make_shared<std::promise<void>>();
    auto answer = found->get_future();
    on_thread([&] {
      route->look([this, found] {
        client->renew_connections();
        found->set_value();
      });
    });
    return answer.wait_for(1s) == std::future_status::ready;
  }

  const std::string folder = "/tmp/weft-route-test-" + std::to_string(::getpid());
  std::shared_ptr<Arena> arena =
      std::make_shared<Arena>(SharedMemory::create(std::size_t{64} << 20, "test").value());
  BufferPool pool{std::size_t{32} << 20, arena};
  BufferPool server_pool{std::size_t{32} << 20};
  std::shared_ptr<BulkCounts> served = std::make_shared<BulkCounts>();
  ServerIdentity identity{};
  std::mutex mutex;
  LocalEndpoint endpoint;                        // protected by mutex, as accepted
  std::vector<std::weak_ptr<Channel>> accepted;  // by shared memory
  std::atomic<LocalRoute::Clock::duration> ahead{LocalRoute::Clock::duration{0}};
  IoThreads threads{1, false};
  IoThreads client_threads{1, false};
  test::MemoryHandler handler{server_pool};
  SessionServer sessions;
  TcpServer tcp;
  std::unique_ptr<ShmServer> local;
  std::shared_ptr<LocalRoute> route;
  std::optional<SessionClient> client;
  unsigned uses = 0;
};

}  // namespace

TEST_CASE("a server on this machine is reached through shared memory") {
  Host host;
  host.listen();
  host.connect();
  host.use();
  CHECK(host.route->transport() == Transport::kSharedMemory);
  CHECK(host.route->counts().to_server == 100'000);
  CHECK(host.route->counts().to_client == 100'000);
}

TEST_CASE("what is not to be had through shared memory goes by TCP, without an error") {
  Host host;
  SECTION("nobody listens") {}
  SECTION("another machine") {
    host.listen();
    host.endpoint.machine[0] ^= std::byte{1};
  }
  SECTION("no machine is known") {
    host.listen();
    host.endpoint.machine = {};
  }
  SECTION("it says nothing of a socket") {
    host.listen();
    host.endpoint.socket.clear();
  }
  SECTION("another server is behind the path") {
    ServerIdentity other{};
    other[3] = std::byte{3};
    host.listen(other);
  }
  host.connect();
  host.use();
  CHECK(host.route->transport() == Transport::kTcp);
  CHECK(host.route->counts().to_server == 0);
}

TEST_CASE("a client without memory to share goes by TCP") {
  BufferPool plain(std::size_t{32} << 20);
  Host host;
  host.listen();
  auto& context = host.client_threads.context(0);
  host.route = std::make_shared<LocalRoute>(
      LocalRoute::Parts{.context = context,
                        .pool = plain,
                        .name = "host",
                        .where = [&] { return host.endpoint; },
                        .server = {},
                        .network = tcp_dialer(context, plain, "127.0.0.1", host.tcp.port())});
  host.connect();
  host.use();
  CHECK(host.route->transport() == Transport::kTcp);
  host.ahead = 1h;
  CHECK_FALSE(host.route->wants_look());
  host.close_client();
  host.on_thread([&] { host.route.reset(); });
}

TEST_CASE("when shared memory goes away the session goes on by TCP, and comes back later") {
  Host host;
  host.listen();
  host.connect();
  host.use();
  host.unlisten();
  host.use();
  REQUIRE(eventually([&] {
    host.use();
    return host.route->transport() == Transport::kTcp;
  }));
  CHECK(host.sessions.counts().sessions == 1);  // the same
  host.listen();
  CHECK_FALSE(host.look());  // not so soon
  host.ahead = 1min;
  CHECK(host.look());
  REQUIRE(eventually([&] {
    host.use();
    return host.route->transport() == Transport::kSharedMemory;
  }));
  CHECK(host.sessions.counts().sessions == 1);
}

TEST_CASE("a look that finds nothing leaves the session as it is") {
  Host host;
  host.connect();
  host.use();
  host.ahead = 1min;
  CHECK_FALSE(host.look());
  CHECK_FALSE(host.route->wants_look());  // once in a while
  host.use();
  CHECK(host.route->transport() == Transport::kTcp);
}

TEST_CASE("shared memory that breaks again at once is left alone for a while") {
  Host host;
  // Takes every connection, greets, and ends it.
  host.local = std::make_unique<ShmServer>(
      host.threads, host.server_pool,
      ShmServerOptions{.path = host.endpoint.socket, .mode = 0600, .users = {}, .limits = {}},
      [&](std::shared_ptr<Channel> channel) {
        struct Nobody : ChannelUser {
          void on_record(ReceivedRecord) override {}
          void on_closed(const Error&) override {}
        };
        auto bulk = serve_bulk(std::move(channel), {}, host.served);
        bulk->start(std::make_shared<Nobody>());
        bulk->post([bulk] { bulk->close({Errc::kClosed, "no"}, true); });
      });
  REQUIRE(host.local->listen());
  host.connect();
  host.use();
  CHECK(host.route->transport() == Transport::kTcp);
}

TEST_CASE("requests that wait for new connections are all answered") {
  Host host;
  host.connect();
  host.use();
  host.listen();
  host.ahead = 1min;
  std::atomic<int> good{0};
  std::atomic<int> left{400};
  for (int i = 0; i < 400; ++i) {
    std::vector<nfs4::OpArgs> ops;
    ops.push_back({Op::OP_PUTFH, nfs4::PutFhArgs{}});
    ops.push_back({Op::OP_COMMIT, nfs4::CommitArgs{}});
    host.client->call(std::move(ops), {.deadline = 10s}, [&](Result<nfs4::CompoundResult> got) {
      if (got) ++good;
      --left;
    });
    if (i == 100) CHECK(host.look());
  }
  CHECK(eventually([&] { return left == 0; }));
  CHECK(good == 400);
  host.use();
  CHECK(host.route->transport() == Transport::kSharedMemory);
}
