// The two ends over a real loopback connection.

#include <boost/asio.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <condition_variable>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "rpc/control/client.h"
#include "rpc/control/server.h"

using namespace weft;
using namespace weft::rpc::control;
namespace peer = weft::rpc::peer;
using peer::ClusterKey;
using peer::Keyring;
using namespace std::chrono_literals;

namespace {

constexpr auto kLong = 20s;  // a test that waits this long has failed

ClusterKey key_of(std::uint8_t value) {
  ClusterKey key;
  key.bytes.fill(std::byte{value});
  return key;
}

// Counts named events; await() waits until one has come so many times.
class Log {
 public:
  void note(const std::string& what) {
    const std::lock_guard lock(mutex_);
    ++counts_[what];
    changed_.notify_all();
  }
  [[nodiscard]] bool await(const std::string& what, int times = 1) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kLong, [&] { return counts_[what] >= times; });
  }
  [[nodiscard]] int count(const std::string& what) {
    const std::lock_guard lock(mutex_);
    return counts_[what];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, int> counts_;
};

struct Mds : ServerEvents {
  Log log;
  bool refuse = false;
  std::vector<Done<FileSize>> kept;  // queries left unanswered
  bool keep_queries = false;
  std::atomic<std::uint32_t> lease{0};

  void on_register(const layout::NetAddress&, Register request, Done<Registered> done) override {
    log.note("register " + request.name);
    if (!request.rdma.empty()) log.note("by rdma at " + to_string(request.rdma.front()));
    if (!request.networks.empty()) log.note("in network " + request.networks.front().name);
    if (refuse) return done(fail(Errc::kInvalid, "not one of ours"));
    Registered answer;
    answer.ds_id = request.ds_id == 0 ? 7 : request.ds_id;
    answer.heartbeat_ms = 50;
    // From another thread, as a registry that writes to a disk does.
    std::thread([answer, done = std::move(done)]() mutable { done(answer); }).detach();
  }
  void on_connected(std::uint32_t ds_id) override { log.note("up " + std::to_string(ds_id)); }
  void on_disconnected(std::uint32_t ds_id, const Error&) override {
    log.note("down " + std::to_string(ds_id));
  }
  peer::Table<std::uint32_t> requests() {
    peer::Table<std::uint32_t> table;
    table.on(*this, &Mds::on_heartbeat);
    table.on(*this, &Mds::on_query_size);
    table.on(*this, &Mds::on_report_size);
    return table;
  }
  void on_heartbeat(std::uint32_t, Heartbeat beat, Done<Lease> done) {
    if (beat.load.measured.disk_others == 7) log.note("others");
    if (beat.counters.reads == 123) log.note("beat");
    done(Lease{lease.load()});
  }
  void on_query_size(std::uint32_t, QuerySize query, Done<FileSize> done) {
    if (keep_queries) {
      kept.push_back(std::move(done));
      return log.note("kept");
    }
    if (query.object.fileid == 404) return done(fail(Errc::kStale, "no such file"));
    done(FileSize{query.object.fileid * 10});
  }
  void on_report_size(std::uint32_t, ReportSize report, Done<void> done) {
    log.note("size " + std::to_string(report.end));
    done({});
  }
};

struct DataServer : ClientEvents {
  Log log;
  std::string name = "ds";
  std::uint32_t ds_id = 0;
  bool reject = false;
  std::vector<layout::NetAddress> rdma;
  std::vector<layout::ClientNetwork> networks;
  TimePoint lease_from;

  Register registration() override {
    Register request;
    request.name = name;
    request.ds_id = ds_id;
    request.rdma = rdma;
    request.networks = networks;
    return request;
  }
  void on_registered(Registered answer, Done<void> done) override {
    if (reject) return done(fail(Errc::kIo, "disk"));
    ds_id = answer.ds_id;
    log.note("registered");
    done({});
  }
  void on_disconnected(const Error& why) override {
    log.note("disconnected " + std::string(to_string(why.code)));
    log.note("disconnected: " + why.text);
    log.note("disconnected");
    log.note("why " + why.text);
  }
  Heartbeat heartbeat() override {
    Heartbeat beat;
    beat.counters.reads = 123;
    beat.load.measured.disk_others = 7;
    return beat;
  }
  void on_lease(TimePoint sent, std::chrono::seconds length) override {
    lease_from = sent;
    log.note("lease " + std::to_string(length.count()));
  }
  peer::Table<> requests() {
    peer::Table<> table;
    table.on(*this, &DataServer::on_fence);
    table.on(*this, &DataServer::on_truncate);
    table.on(*this, &DataServer::on_remove);
    table.on(*this, &DataServer::on_stat);
    table.on(*this, &DataServer::on_allocate);
    return table;
  }
  void on_fence(FenceRequest request, Done<void> done) {
    log.note("fences " + std::to_string(request.fences.size()));
    done({});
  }
  void on_truncate(Truncate request, Done<ObjectStat> done) {
    if (request.size == 999) return done(fail(Errc::kNoSpace, "full"));
    done(ObjectStat{true, request.size, 0, 0});
  }
  void on_remove(Remove request, Done<void> done) {
    log.note("remove " + std::to_string(request.objects.size()));
    done({});
  }
  void on_stat(Stat, Done<ObjectStat>) {
    log.note("stat");  // and never answers
  }
  void on_allocate(Allocate, Done<void> done) { done({}); }
};

Server::Config server_config(std::uint8_t key = 1, std::uint16_t port = 0) {
  Server::Config config;
  config.listen = layout::make_address("127.0.0.1", port).value();
  config.keys = std::make_shared<Keyring>(key_of(key));
  return config;
}

Client::Config client_config(const Server& server, std::uint8_t key = 1) {
  Client::Config config;
  config.mds_host = "127.0.0.1";
  config.mds_port = server.address().port;
  config.keys = std::make_shared<Keyring>(key_of(key));
  config.backoff_min = 10ms;
  config.backoff_max = 100ms;
  return config;
}

// Waits for the one result of a call.
template <class T>
struct Awaited {
  std::promise<Result<T>> promise;
  std::future<Result<T>> future = promise.get_future();
  Done<T> done() {
    return [this](Result<T> result) { promise.set_value(std::move(result)); };
  }
  Result<T> get() {
    REQUIRE(future.wait_for(kLong) == std::future_status::ready);
    return future.get();
  }
};

template <class T>
Result<T> wait_for(std::move_only_function<void(Done<T>)> start) {
  Awaited<T> awaited;
  start(awaited.done());
  return awaited.get();
}

struct Both {
  Mds mds;
  DataServer ds;
  Server server{server_config(), mds, mds.requests()};
  std::unique_ptr<Client> client;

  void start() {
    REQUIRE(server.start());
    client = std::make_unique<Client>(client_config(server), ds, ds.requests());
    client->start();
    REQUIRE(ds.log.await("registered"));
    REQUIRE(mds.log.await("beat"));
  }
};

}  // namespace

TEST_CASE("a metadata server is told of RDMA if it knows of it, and again when that changes") {
  Both both;
  both.ds.rdma = {layout::make_address("192.0.2.7", 20049).value()};
  both.start();
  CHECK(both.mds.log.count("by rdma at 192.0.2.7:20049") == 1);
  both.ds.rdma[0].port = 99;
  both.client->register_again();
  CHECK(both.ds.log.await("registered", 2));
  CHECK(both.mds.log.await("by rdma at 192.0.2.7:99"));
  CHECK(both.mds.log.count("down 7") == 1);
}

TEST_CASE("servers of a version before are registered with as they know it") {
  // Before RDMA, before networks, before what others use of a disk, now.
  const std::uint32_t known = GENERATE(3U, 4U, 5U, 6U);
  const peer::Versions before{.least = 3, .most = known};
  Both both;
  both.ds.rdma = {layout::make_address("192.0.2.7", 20049).value()};
  both.ds.networks = {{.name = "n",
                       .addresses = {layout::make_address("192.0.2.7", 2049).value()},
                       .clients = {layout::parse_range("192.0.2.0/24").value()}}};
  auto served = server_config();
  const bool old_server = GENERATE(true, false);
  if (old_server) served.versions = before;
  Server server(served, both.mds, both.mds.requests());
  REQUIRE(server.start());
  auto config = client_config(server);
  if (!old_server) config.versions = before;
  both.client = std::make_unique<Client>(config, both.ds, both.ds.requests());
  both.client->start();
  REQUIRE(both.ds.log.await("registered"));
  CHECK(both.mds.log.await("beat"));
  CHECK(both.mds.log.count("register ds") == 1);
  CHECK(both.mds.log.count("by rdma at 192.0.2.7:20049") == (known > 3 ? 1 : 0));
  CHECK(both.mds.log.count("in network n") == (known > 4 ? 1 : 0));
  CHECK((both.mds.log.count("others") > 0) == (known > 5));
  both.client.reset();
}

TEST_CASE("a data server registers, beats, and is called") {
  Both both;
  both.start();
  CHECK(both.mds.log.await("beat", 3));
  CHECK(both.client->registered());

  const ObjectId object{5, 1, 1};
  const auto cut = wait_for<ObjectStat>(
      [&](auto done) { both.server.call(7, Truncate{object, 4096}, 5s, std::move(done)); });
  REQUIRE(cut);
  CHECK(cut->size == 4096);
  const auto full = wait_for<ObjectStat>(
      [&](auto done) { both.server.call(7, Truncate{object, 999}, 5s, std::move(done)); });
  CHECK(full.error() == Errc::kNoSpace);
  CHECK(full.error().text == "full");
  CHECK(wait_for<void>([&](auto done) {
    both.server.call(7, FenceRequest{{Fence{}, Fence{}}}, 5s, std::move(done));
  }));
  CHECK(both.ds.log.await("fences 2"));
  CHECK(wait_for<void>(
      [&](auto done) { both.server.call(7, Remove{{object}}, 5s, std::move(done)); }));
  CHECK(wait_for<void>([&](auto done) { both.server.call(7, Allocate{{}}, 5s, std::move(done)); }));
  CHECK(wait_for<void>([&](auto done) {
          both.server.call(7, Punch{{}}, 5s, std::move(done));
        }).error() == Errc::kNotSupported);
}

TEST_CASE("a lease counts from when the heartbeat was sent, and none is no lease") {
  Both both;
  ManualClock clock;
  REQUIRE(both.server.start());
  auto config = client_config(both.server);
  config.clock = &clock;
  both.client = std::make_unique<Client>(config, both.ds, both.ds.requests());
  both.client->start();
  REQUIRE(both.mds.log.await("beat", 3));
  CHECK(both.ds.log.await("lease 0"));
  both.mds.lease = 30;
  REQUIRE(both.ds.log.await("lease 30"));
  both.client.reset();
  CHECK(both.ds.lease_from == clock.now());
}

TEST_CASE("a data server asks for and reports sizes") {
  Both both;
  both.start();
  const auto size = wait_for<FileSize>(
      [&](auto done) { both.client->call(QuerySize{{6, 1, 1}}, 5s, std::move(done)); });
  REQUIRE(size);
  CHECK(size->size == 60);
  CHECK(wait_for<FileSize>([&](auto done) {
          both.client->call(QuerySize{{404, 1, 1}}, 5s, std::move(done));
        }).error() == Errc::kStale);
  CHECK(wait_for<void>(
      [&](auto done) { both.client->call(ReportSize{{6, 1, 1}, 777, 0}, 5s, std::move(done)); }));
  CHECK(both.mds.log.count("size 777") == 1);
}

TEST_CASE("a call that is not answered times out, and the connection lives on") {
  Both both;
  both.start();
  CHECK(wait_for<ObjectStat>([&](auto done) {
          both.server.call(7, Stat{{1, 1, 1}}, 100ms, std::move(done));
        }).error() == Errc::kTimedOut);
  CHECK(both.ds.log.await("stat"));
  CHECK(wait_for<ObjectStat>(
      [&](auto done) { both.server.call(7, Truncate{{1, 1, 1}, 1}, 5s, std::move(done)); }));
}

TEST_CASE("a data server that is not there is unreachable at once") {
  Both both;
  both.start();
  CHECK(wait_for<void>([&](auto done) {
          both.server.call(8, FenceRequest{{Fence{}}}, 60s, std::move(done));
        }).error() == Errc::kUnreachable);
}

TEST_CASE("calls under way fail when the connection breaks, and the data server comes back") {
  Both both;
  both.start();
  Awaited<ObjectStat> stat;
  both.server.call(7, Stat{{1, 1, 1}}, 60s, stat.done());
  REQUIRE(both.ds.log.await("stat"));
  both.server.disconnect(7);
  CHECK(stat.get().error() == Errc::kUnreachable);
  CHECK(both.mds.log.await("down 7"));
  CHECK(both.ds.log.await("registered", 2));
  CHECK(both.mds.log.await("up 7", 2));
  CHECK(wait_for<ObjectStat>(
      [&](auto done) { both.server.call(7, Truncate{{1, 1, 1}, 1}, 5s, std::move(done)); }));
}

TEST_CASE("a metadata server that restarts finds its data servers again") {
  auto both = std::make_unique<Both>();
  both->start();
  const std::uint16_t port = both->server.address().port;
  both->server.stop();
  REQUIRE(both->ds.log.await("disconnected"));
  CHECK(wait_for<FileSize>([&](auto done) {
          both->client->call(QuerySize{{6, 1, 1}}, 5s, std::move(done));
        }).error() == Errc::kUnreachable);
  Mds again;
  Server second(server_config(1, port), again, again.requests());
  REQUIRE(second.start());
  CHECK(both->ds.log.await("registered", 2));
  CHECK(again.log.await("up 7"));
  both->client->stop();
}

TEST_CASE("another cluster key is refused at both ends") {
  Mds mds;
  DataServer ds;
  Server server(server_config(1), mds, mds.requests());
  REQUIRE(server.start());
  Client client(client_config(server, 2), ds, ds.requests());
  client.start();
  CHECK(ds.log.await("disconnected", 2));
  CHECK(
      ds.log.await("why the peer does not use a cluster key of ours. Compare the key files: weft "
                   "key show FILE, here and at the metadata server"));
  CHECK(mds.log.count("register ds") == 0);
  CHECK_FALSE(client.registered());
}

TEST_CASE("connections go over to the key that is used now") {
  const auto at_server = std::make_shared<Keyring>(key_of(1));
  const auto at_client = std::make_shared<Keyring>(key_of(1));
  Mds mds;
  DataServer ds;
  auto config = server_config();
  config.keys = at_server;
  Server server(config, mds, mds.requests());
  REQUIRE(server.start());
  auto its = client_config(server);
  its.keys = at_client;
  Client client(its, ds, ds.requests());
  client.start();
  REQUIRE(mds.log.await("up 7"));
  for (const auto& keys : {at_client, at_server}) keys->use({key_of(1), key_of(2)});
  CHECK(wait_for<void>([&](auto done) { server.call(7, Allocate{{}}, 5s, std::move(done)); }));
  CHECK(mds.log.count("up 7") == 1);

  at_server->use({key_of(2), key_of(1)});
  // Nothing is asked of it over the old connection, which ends.
  CHECK(wait_for<void>([&](auto done) {
          server.call(7, Allocate{{}}, 5s, std::move(done));
        }).error() == Errc::kUnreachable);
  REQUIRE(mds.log.await("up 7", 2));
  at_client->use({key_of(2)});
  at_server->use({key_of(2)});
  CHECK(wait_for<void>([&](auto done) { server.call(7, Allocate{{}}, 5s, std::move(done)); }));
  CHECK(mds.log.count("up 7") == 2);

  // Without the key of its connection it has no connection.
  at_client->use({key_of(3)});
  REQUIRE(mds.log.await("down 7", 2));
  std::this_thread::sleep_for(300ms);
  CHECK(mds.log.count("up 7") == 2);
}

TEST_CASE("a refused registration is told to the data server, which tries again") {
  Mds mds;
  mds.refuse = true;
  DataServer ds;
  Server server(server_config(), mds, mds.requests());
  REQUIRE(server.start());
  Client client(client_config(server), ds, ds.requests());
  client.start();
  CHECK(ds.log.await("disconnected " + std::string(to_string(Errc::kInvalid)), 2));
  CHECK(mds.log.await("register ds", 2));
  CHECK_FALSE(client.registered());
}

TEST_CASE("a data server that cannot keep its registration is not registered") {
  Both both;
  both.ds.reject = true;
  REQUIRE(both.server.start());
  Client client(client_config(both.server), both.ds, both.ds.requests());
  client.start();
  CHECK(both.ds.log.await("disconnected " + std::string(to_string(Errc::kIo)), 2));
  CHECK(both.mds.log.count("beat") == 0);
}

TEST_CASE("the newer of two connections of one data server stays") {
  Both both;
  both.start();
  DataServer twin;
  twin.ds_id = 7;
  Client second(client_config(both.server), twin, twin.requests());
  second.start();
  CHECK(twin.log.await("registered"));
  CHECK(both.ds.log.await("disconnected"));
  second.stop();
  both.client->stop();
}

TEST_CASE("calls beyond the limit are refused at once, others are not disturbed") {
  Mds mds;
  DataServer ds;
  auto config = server_config();
  config.max_calls = 2;
  Server server(config, mds, mds.requests());
  REQUIRE(server.start());
  Client client(client_config(server), ds, ds.requests());
  client.start();
  REQUIRE(mds.log.await("beat"));
  Awaited<ObjectStat> first;
  Awaited<ObjectStat> second;
  server.call(7, Stat{{1, 1, 1}}, 300ms, first.done());
  server.call(7, Stat{{1, 1, 1}}, 300ms, second.done());
  CHECK(wait_for<ObjectStat>([&](auto done) {
          server.call(7, Stat{{1, 1, 1}}, 60s, std::move(done));
        }).error() == Errc::kBusy);
  CHECK(first.get().error() == Errc::kTimedOut);
  CHECK(second.get().error() == Errc::kTimedOut);
  CHECK(wait_for<ObjectStat>(
      [&](auto done) { server.call(7, Truncate{{1, 1, 1}, 1}, 5s, std::move(done)); }));
}

TEST_CASE("every call completes once, however often the connection breaks") {
  Both both;
  both.start();
  constexpr int kCalls = 2000;
  std::atomic<int> completed = 0;
  for (int i = 0; i < kCalls; ++i) {
    both.server.call(7, Truncate{{1, 1, 1}, 1}, 5s,
                     [&](const Result<ObjectStat>&) { ++completed; });
    both.client->call(QuerySize{{6, 1, 1}}, 5s, [&](const Result<FileSize>&) { ++completed; });
    if (i % 100 == 50) both.server.disconnect(7);
    if (i % 100 == 99) (void)both.ds.log.await("registered", i / 100 + 1);
  }
  for (int i = 0; i < 4000 && completed < 2 * kCalls; ++i) std::this_thread::sleep_for(5ms);
  both.client->stop();
  both.server.stop();
  CHECK(completed == 2 * kCalls);
}

TEST_CASE("stopping completes what is under way, and later calls at once") {
  Both both;
  both.start();
  Awaited<ObjectStat> stat;
  both.server.call(7, Stat{{1, 1, 1}}, 60s, stat.done());
  REQUIRE(both.ds.log.await("stat"));
  both.server.stop();
  CHECK_FALSE(stat.get());
  CHECK(wait_for<ObjectStat>([&](auto done) {
          both.server.call(7, Stat{{1, 1, 1}}, 60s, std::move(done));
        }).error() == Errc::kClosed);
}

TEST_CASE("an event's answer may come after everything is gone") {
  Mds mds;
  {
    DataServer ds;
    auto server = std::make_unique<Server>(server_config(), mds, mds.requests());
    REQUIRE(server->start());
    mds.keep_queries = true;
    Client client(client_config(*server), ds, ds.requests());
    client.start();
    REQUIRE(ds.log.await("registered"));
    REQUIRE(mds.log.await("beat"));
    Awaited<FileSize> size;
    client.call(QuerySize{{6, 1, 1}}, 60s, size.done());
    REQUIRE(mds.log.await("kept"));
    client.stop();
    CHECK_FALSE(size.get());
  }
  mds.kept.front()(FileSize{1});
}

TEST_CASE("a stranger is dropped, if it says nothing, half of something or something else") {
  Mds mds;
  auto config = server_config();
  config.handshake_timeout = 100ms;
  Server server(config, mds, mds.requests());
  REQUIRE(server.start());
  std::string says;
  SECTION("nothing") {}
  SECTION("the beginning of a TLS record") { says = std::string("\x16\x03\x03\x01", 4); }
  SECTION("what is no TLS") { says = "GET / HTTP/1.1\r\n\r\n"; }
  boost::asio::io_context context;
  boost::asio::ip::tcp::socket socket(context);
  socket.connect({boost::asio::ip::make_address("127.0.0.1"), server.address().port});
  boost::asio::write(socket, boost::asio::buffer(says));
  std::string heard;
  boost::system::error_code error;
  boost::asio::read(socket, boost::asio::dynamic_buffer(heard, 4096), error);
  CHECK(error);
  CHECK(heard.size() < 4096);
}

TEST_CASE("strangers do not keep a data server out, and it stays") {
  Mds mds;
  auto config = server_config();
  config.handshake_timeout = 60s;
  config.max_strangers = 6;
  config.max_strangers_per_address = 4;
  Server server(config, mds, mds.requests());
  REQUIRE(server.start());
  boost::asio::io_context context;
  std::vector<std::unique_ptr<boost::asio::ip::tcp::socket>> strangers;
  const auto come = [&](const char* from, int count) {
    for (int i = 0; i < count; ++i) {
      auto socket = std::make_unique<boost::asio::ip::tcp::socket>(context);
      socket->open(boost::asio::ip::tcp::v4());
      socket->bind({boost::asio::ip::make_address(from), 0});
      socket->connect({boost::asio::ip::make_address("127.0.0.1"), server.address().port});
      strangers.push_back(std::move(socket));
    }
  };
  const auto open = [&] {
    std::this_thread::sleep_for(200ms);
    return std::ranges::count_if(strangers, [](const auto& socket) {
      char bytes[256];
      ssize_t n = 1;
      while (n > 0) n = ::recv(socket->native_handle(), bytes, sizeof bytes, MSG_DONTWAIT);
      return n < 0 && errno == EAGAIN;
    });
  };
  come("127.0.0.2", 10);
  CHECK(open() == 4);
  come("127.0.0.3", 4);
  CHECK(open() == 6);
  DataServer ds;
  Client client(client_config(server), ds, ds.requests());
  client.start();
  REQUIRE(ds.log.await("registered"));
  come("127.0.0.4", 20);
  come("127.0.0.1", 20);
  CHECK(open() == 6);
  CHECK(ds.log.count("disconnected") == 0);
}

TEST_CASE("a metadata server that waits for the data server to begin is given up") {
  boost::asio::io_context context;
  boost::asio::ip::tcp::acceptor old(
      context, {boost::asio::ip::make_address("127.0.0.1"), std::uint16_t{0}});
  DataServer ds;
  Client::Config config;
  config.mds_host = "127.0.0.1";
  config.mds_port = old.local_endpoint().port();
  config.keys = std::make_shared<Keyring>(key_of(1));
  config.connect_timeout = 100ms;
  Client client(config, ds, ds.requests());
  client.start();
  CHECK(ds.log.await("disconnected " + std::string(to_string(Errc::kTimedOut)), 2));
  CHECK(
      ds.log.await("disconnected: no handshake: is that a metadata server, and of the same "
                   "version of Weft?"));
}

TEST_CASE("an address in use is an error, not an exception") {
  Mds mds;
  Server first(server_config(), mds, mds.requests());
  REQUIRE(first.start());
  Server second(server_config(1, first.address().port), mds, mds.requests());
  CHECK_FALSE(second.start());
}
