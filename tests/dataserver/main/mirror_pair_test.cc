// Two whole data servers that mirror each other over TCP, and a metadata server's end of the
// control protocol.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <condition_variable>
#include <map>

#include "rpc/control/server.h"
#include "tests/dataserver/main/server_rig.h"
#include "tests/rpc/log_lines.h"

namespace weft::ds {
namespace {

namespace control = rpc::control;
using namespace std::chrono_literals;
using layout::Duplication;
using rpc::nfs4::StableHow;
using rpc::nfs4::Status;
using test::DsClient;
using test::kServedObject;
using test::ServerRig;

// Ids in the order of registration.
class PairMds final : public control::ServerEvents {
 public:
  explicit PairMds(const rpc::peer::ClusterKey& key)
      : keys(std::make_shared<rpc::peer::Keyring>(key)),
        server_({.listen = layout::make_address("127.0.0.1", 0).value(), .keys = keys}, *this,
                requests()) {
    if (!server_.start()) throw std::runtime_error("control server does not start");
  }
  ~PairMds() override { server_.stop(); }
  control::Server& server() { return server_; }

  void on_register(const layout::NetAddress& /*from*/, control::Register request,
                   control::Done<control::Registered> done) override {
    control::Registered answer{.cluster = {std::byte{0xC1}}, .heartbeat_ms = 50};
    {
      const std::lock_guard lock(mutex_);
      auto& id = ids_[request.store];
      if (id == 0) id = static_cast<std::uint32_t>(ids_.size());
      answer.ds_id = id;
    }
    done(answer);
  }
  void on_connected(std::uint32_t /*ds_id*/) override {}
  void on_disconnected(std::uint32_t /*ds_id*/, const Error& /*why*/) override {}
  rpc::peer::Table<std::uint32_t> requests() {
    rpc::peer::Table<std::uint32_t> table;
    table.on(*this, &PairMds::on_heartbeat);
    table.on(*this, &PairMds::on_query_size);
    table.on(*this, &PairMds::on_report_size);
    table.on(*this, &PairMds::on_locate);
    table.on(*this, &PairMds::on_copy_missed);
    return table;
  }
  void on_heartbeat(std::uint32_t ds_id, control::Heartbeat heartbeat,
                    control::Done<control::Lease> done) {
    const std::lock_guard lock(mutex_);
    heartbeats[ds_id] = std::move(heartbeat);
    changed_.notify_all();
    done(control::Lease{60});
  }
  void on_query_size(std::uint32_t /*ds_id*/, control::QuerySize /*query*/,
                     control::Done<control::FileSize> done) {
    done(control::FileSize{0});
  }
  void on_report_size(std::uint32_t ds_id, control::ReportSize /*report*/,
                      control::Done<void> done) {
    reports.fetch_add(ds_id == 1 ? 1 : 1000);
    done({});
  }
  void on_locate(std::uint32_t /*ds_id*/, control::Locate wanted,
                 control::Done<control::Located> done) {
    const std::lock_guard lock(mutex_);
    done(control::Located{.state = control::Located::State::kUp,
                          .addresses = {where_[wanted.ds_id]}});
  }
  void on_copy_missed(std::uint32_t ds_id, control::CopyMissed told, control::Done<void> done) {
    const std::lock_guard lock(mutex_);
    missed_.emplace_back(ds_id, told);
    done({});
  }
  template <class Condition>
  bool wait(Condition condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 10s, condition);
  }

  void set_where(std::uint32_t ds_id, const layout::NetAddress& address) {
    const std::lock_guard lock(mutex_);
    where_[ds_id] = address;
  }
  // Who told it, and what.
  [[nodiscard]] std::vector<std::pair<std::uint32_t, control::CopyMissed>> missed() const {
    const std::lock_guard lock(mutex_);
    return missed_;
  }

  const std::shared_ptr<rpc::peer::Keyring> keys;
  std::map<std::uint32_t, control::Heartbeat> heartbeats;  // protected by mutex_: in wait()
  std::atomic<int> reports{0};

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<control::Uuid, std::uint32_t> ids_;                         // protected by mutex_
  std::map<std::uint32_t, layout::NetAddress> where_;                  // likewise
  std::vector<std::pair<std::uint32_t, control::CopyMissed>> missed_;  // likewise
  control::Server server_;
};

struct Pair {
  Pair() : mds(first_rig.key) {
    std::ofstream(second_rig.config.key_file, std::ios::trunc)
        << std::ifstream(first_rig.config.key_file).rdbuf();
    first = start(first_rig, 1);
    second = start(second_rig, 2);
  }
  std::unique_ptr<DataServer> start(ServerRig& rig, std::uint32_t id) {
    rig.config.mds = {{"127.0.0.1", mds.server().address().port}};
    rig.config.advertise = {layout::make_address("127.0.0.1", 1).value()};
    rig.config.mirror.timeout = 1s;
    auto server = std::move(DataServer::open(rig.config, std::nullopt).value());
    for (int i = 0; i < 500 && server->ports().empty(); ++i) {
      REQUIRE(server->tick());
      std::this_thread::sleep_for(10ms);
    }
    const std::uint16_t port = server->ports().at(0);
    const auto address = layout::make_address("127.0.0.1", port).value();
    mds.set_where(id, address);
    rig.config.listen = {address};  // the same when it is started again
    return server;
  }
  // Once the first has told that it knows it away: until it is seen to be back.
  void start_second_again() {
    const auto away = [this](std::uint64_t count) {
      return mds.wait([&] { return mds.heartbeats[1].mirror.partners_away == count; });
    };
    CHECK(away(1));
    second = start(second_rig, 2);
    CHECK(away(0));
  }
  layout::SealedHandle handle(Duplication duplication, std::uint32_t on = 1,
                              std::uint32_t epoch = 1) const {
    layout::Handle handle{.access = layout::Access::kReadWrite,
                          .key_id = rpc::peer::kHandleKeyId,
                          .ds_id = on,
                          .object = kServedObject,
                          .client_id = 1,
                          .object_epoch = epoch,
                          .client_epoch = 1};
    if (duplication != Duplication::kNone) {
      handle.duplication = duplication;
      handle.partners = {on == 1 ? 2U : 1U, 0};
    }
    return layout::seal(handle, rpc::peer::handle_key(first_rig.key));
  }

  ServerRig first_rig;
  ServerRig second_rig;
  PairMds mds;
  std::unique_ptr<DataServer> first;
  std::unique_ptr<DataServer> second;
};

std::string pattern(std::size_t size, int seed) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 31 + i / 4093 + seed);
  return bytes;
}

TEST_CASE("what is written at one data server is at its partner over TCP") {
  Pair pair;
  for (const auto duplication : {Duplication::kServerSync, Duplication::kServerAsync}) {
    const auto handle = pair.handle(duplication);
    DsClient client(pair.first->ports().at(0));
    DsClient other(pair.second->ports().at(0));
    const std::string bytes = pattern(4 << 20, static_cast<int>(duplication));
    rpc::nfs4::WriteOk ok;
    for (std::size_t at = 0; at < bytes.size(); at += 1 << 20) {
      REQUIRE(client.write(handle, at, bytes.substr(at, 1 << 20), &ok) == Status::NFS4_OK);
    }
    const auto verifier = client.commit(handle);
    if (duplication == Duplication::kServerSync) CHECK(verifier == ok.verifier);
    for (std::size_t at = 0; at < bytes.size(); at += 1 << 20) {
      REQUIRE(other.read(pair.handle(Duplication::kNone, 2), at, 1 << 20).text ==
              bytes.substr(at, 1 << 20));
    }
  }
  CHECK(pair.mds.missed().empty());
  CHECK(pair.mds.wait(
      [&] { return pair.mds.heartbeats[1].mirror.forwarded_bytes == std::uint64_t{8} << 20; }));
  CHECK(pair.first->stop());
  CHECK(pair.second->stop());
}

TEST_CASE("a stable write is reported once, by the server the client wrote to") {
  Pair pair;
  DsClient client(pair.first->ports().at(0));
  REQUIRE(client.write(pair.handle(Duplication::kServerSync), 0, "x", nullptr,
                       StableHow::FILE_SYNC4) == Status::NFS4_OK);
  CHECK(pair.mds.reports == 1);
}

TEST_CASE("a partner that died is recorded, and written to again when it is back") {
  Pair pair;
  DsClient client(pair.first->ports().at(0));
  const auto handle = pair.handle(Duplication::kServerSync);
  REQUIRE(client.write(handle, 0, "both") == Status::NFS4_OK);
  REQUIRE(pair.second->stop());
  pair.second.reset();
  const auto began = std::chrono::steady_clock::now();
  REQUIRE(client.write(handle, 0, "one!") == Status::NFS4_OK);
  CHECK(std::chrono::steady_clock::now() - began < 5s);
  REQUIRE(pair.mds.missed().size() == 1);
  CHECK(pair.mds.missed()[0].first == 1);
  CHECK(pair.mds.missed()[0].second ==
        control::CopyMissed{kServedObject, 2, 1, {{0, std::uint64_t{4} << 20}}});

  pair.start_second_again();
  std::promise<Result<>> forgotten;
  pair.mds.server().call(1, control::ForgetMissed{kServedObject, 2}, 5s,
                         [&](Result<> answer) { forgotten.set_value(std::move(answer)); });
  REQUIRE(forgotten.get_future().get());
  REQUIRE(client.write(handle, 0, "back") == Status::NFS4_OK);
  DsClient other(pair.second->ports().at(0));
  CHECK(other.read(pair.handle(Duplication::kNone, 2), 0, 10).text == "back");
  CHECK(pair.mds.missed().size() == 1);
}

TEST_CASE("a partner that was started again while nobody wrote has missed nothing") {
  Pair pair;
  DsClient client(pair.first->ports().at(0));
  const auto handle = pair.handle(Duplication::kServerSync);
  REQUIRE(client.write(handle, 0, "before") == Status::NFS4_OK);
  REQUIRE(client.commit(handle).has_value());
  REQUIRE(pair.second->stop());
  pair.second.reset();
  pair.second = pair.start(pair.second_rig, 2);
  REQUIRE(client.write(handle, 2, "after") == Status::NFS4_OK);
  REQUIRE(client.commit(handle).has_value());
  DsClient other(pair.second->ports().at(0));
  CHECK(other.read(pair.handle(Duplication::kNone, 2), 0, 10).text == "beafter");
  CHECK(pair.mds.missed().empty());
}

TEST_CASE("a server that was away gets what it missed from its partner") {
  Pair pair;
  DsClient client(pair.first->ports().at(0));
  const auto handle = pair.handle(Duplication::kServerSync);
  const std::string before = pattern(2 << 20, 1);
  for (std::size_t at = 0; at < before.size(); at += 1 << 20) {
    REQUIRE(client.write(handle, at, before.substr(at, 1 << 20)) == Status::NFS4_OK);
  }
  REQUIRE(client.commit(handle).has_value());
  REQUIRE(pair.second->stop());
  pair.second.reset();
  REQUIRE(client.write(handle, 1 << 20, pattern(100'000, 7)) == Status::NFS4_OK);
  REQUIRE(pair.mds.missed().size() == 1);

  pair.start_second_again();
  control::Server& mds = pair.mds.server();
  const auto ask = [](auto start) {
    std::promise<Result<>> answer;
    start([&](Result<> result) { answer.set_value(std::move(result)); });
    return answer.get_future().get();
  };
  REQUIRE(ask([&](auto done) {
    mds.call(1, control::ForgetMissed{kServedObject, 2}, 5s, std::move(done));
  }));
  const control::Resync job{.job = 9,
                            .object = kServedObject,
                            .source = 1,
                            .least_epoch = 2,
                            .extents = pair.mds.missed()[0].second.extents};
  REQUIRE(ask([&](auto done) { mds.call(2, job, 5s, std::move(done)); }));
  control::ResyncProgress progress;
  for (int i = 0; i < 1000; ++i) {
    std::promise<control::ResyncProgress> got;
    mds.call(2, control::ResyncStatus{9}, 5s,
             [&](Result<control::ResyncProgress> p) { got.set_value(p.value()); });
    progress = got.get_future().get();
    if (progress.state != control::ResyncProgress::State::kRunning) break;
    std::this_thread::sleep_for(10ms);
  }
  CHECK(progress.error.empty());
  CHECK(progress.state == control::ResyncProgress::State::kDone);
  CHECK(progress.copied_bytes <= 110'000);
  DsClient other(pair.second->ports().at(0));
  const auto everything = [](DsClient& from, const layout::SealedHandle& with) {
    return from.read(with, 0, 1 << 20).text + from.read(with, 1 << 20, 1 << 20).text;
  };
  CHECK(everything(client, pair.handle(Duplication::kNone, 1, 2)) ==
        everything(other, pair.handle(Duplication::kNone, 2, 2)));
  // The old epoch's writes do not reach the copy any more.
  CHECK(client.write(handle, 0, "late") == Status::NFS4ERR_ACCESS);
  CHECK(other.read(pair.handle(Duplication::kNone, 2, 2), 0, 4).text == before.substr(0, 4));
}

// By four clients, in sessions with the partner that began with the old key.
void change_key_while_written(Pair& pair) {
  const rpc::peer::ClusterKey old = pair.first_rig.key;
  const rpc::peer::ClusterKey fresh = rpc::peer::random_cluster_key();
  const auto tick = [&] {
    REQUIRE(pair.first->tick());
    REQUIRE(pair.second->tick());
  };
  const auto use = [&](const rpc::peer::ClusterKeys& keys) {
    for (const ServerRig* rig : {&pair.first_rig, &pair.second_rig}) {
      REQUIRE(rpc::peer::replace_cluster_keys(rig->config.key_file, keys));
    }
    pair.mds.keys->use(keys);
    tick();
  };
  constexpr std::uint32_t kPart = 1 << 20;
  constexpr int kWrites = 150;
  std::vector<std::unique_ptr<DsClient>> clients;
  for (std::uint64_t i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<DsClient>(pair.first->ports().at(0), std::to_string(i)));
    REQUIRE(clients.back()->write(pair.handle(Duplication::kServerSync), i * kPart, "old") ==
            Status::NFS4_OK);
  }
  use({old, fresh});
  use({fresh, old});
  pair.first_rig.key = fresh;  // of handles
  std::atomic<int> good{0};
  std::atomic<int> ended{0};
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < clients.size(); ++i) {
    threads.emplace_back([&, i] {
      const auto handle = pair.handle(Duplication::kServerSync);
      for (int n = 0; n < kWrites; ++n) {
        const auto bytes = pattern(40'000, n);
        const std::uint64_t at = i * kPart + static_cast<std::uint64_t>(n) * 5000;
        if (clients[i]->write(handle, at, bytes) == Status::NFS4_OK) ++good;
      }
      ++ended;
    });
  }
  while (good < kWrites && ended == 0) std::this_thread::sleep_for(1ms);
  use({fresh});
  while (ended < 4) {
    tick();
    std::this_thread::sleep_for(10ms);
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(good == 4 * kWrites);
  CHECK(pair.mds.missed().empty());
  DsClient other(pair.second->ports().at(0));
  for (std::uint64_t i = 0; i < 4; ++i) {
    CHECK(clients[i]->read(pair.handle(Duplication::kNone), i * kPart, kPart).text ==
          other.read(pair.handle(Duplication::kNone, 2), i * kPart, kPart).text);
  }
}

TEST_CASE("a partner whose sessions end with the old key misses nothing, and is not away") {
  rpc::test::LogLines log;
  {
    Pair pair;
    change_key_while_written(pair);
  }
  const auto lines = log.take();
  const auto has = [&lines](std::string_view event) {
    return std::ranges::any_of(lines, [&](const auto& line) { return line.contains(event); });
  };
  CHECK(has("event=server_sessions_end"));
  CHECK_FALSE(has("event=partner_away"));
}

// Several connections, so several I/O threads, at the same bytes at once.
TEST_CASE("two clients that write over each other leave equal copies") {
  Pair pair;
  const auto handle = pair.handle(Duplication::kServerSync);
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      DsClient client(pair.first->ports().at(0), "client-" + std::to_string(t));
      SeededRandom random(static_cast<std::uint64_t>(t) + 1);
      for (int i = 0; i < 150; ++i) {
        const auto bytes = pattern(1 + random.below(60'000), t * 1000 + i);
        if (client.write(handle, random.below(100'000), bytes) != Status::NFS4_OK) return;
      }
      if (client.commit(handle)) ++good;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(good == 4);
  CHECK(pair.mds.missed().empty());
  DsClient client(pair.first->ports().at(0));
  DsClient other(pair.second->ports().at(0));
  CHECK(client.read(pair.handle(Duplication::kNone), 0, 200'000).text ==
        other.read(pair.handle(Duplication::kNone, 2), 0, 200'000).text);
}

}  // namespace
}  // namespace weft::ds
