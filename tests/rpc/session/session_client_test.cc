// The session client against the real server over an in-memory network that is cut at random:
// every write the client was told of happened, and none happened twice.
#include "rpc/session/session_client.h"

#include <rapidcheck.h>

#include <catch2/catch_test_macros.hpp>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <thread>

#include "rpc/session/client_slots.h"
#include "rpc/session/session_server.h"
#include "tests/rpc/session/memory_handler.h"
#include "tests/rpc/transport/in_memory.h"

using namespace weft;
using namespace weft::rpc;
using nfs4::Op;
using nfs4::Status;

namespace {

// WRITEs are carried out when they are let go, if they are held.
class Holding final : public OpHandler {
 public:
  explicit Holding(OpHandler& handler) : handler_(handler) {}
  void execute(Compound& compound, nfs4::OpArgs op, OpDone done) override {
    if (!holds || op.op != Op::OP_WRITE) {
      return handler_.execute(compound, std::move(op), std::move(done));
    }
    held_.push_back([this, &compound, op = std::move(op), done = std::move(done)]() mutable {
      handler_.execute(compound, std::move(op), std::move(done));
    });
  }
  void release_one() {
    if (held_.empty()) return;
    auto first = std::move(held_.front());
    held_.pop_front();
    first();
  }
  bool holds = false;

 private:
  OpHandler& handler_;
  std::deque<std::move_only_function<void()>> held_;
};

struct World {
  explicit World(std::uint64_t seed, SessionClientOptions options = {})
      : random(seed), network(pool, random), handler(pool), holding(handler) {
    restart();
    options.owner = "client";
    options.verifier = 1;
    options.slots = 4;
    options.connections = 2;
    options.reconnect_least = std::chrono::milliseconds(1);
    options.reconnect_most = std::chrono::milliseconds(2);
    client.emplace(
        context,
        [this](auto done) {
          if (!server) return done(fail(Errc::kUnreachable, "the server is down"));
          auto pair = network.connect();
          server->serve(pair.b);
          done(std::move(pair.a));
        },
        options);
  }
  ~World() {
    client.reset();
    settle();
  }

  // A new life of the server: it knows no session and no client any more.
  void restart() {
    for (std::size_t i = 0; i < network.connections(); ++i) network.cut(i);
    server.reset();  // who dials from here on hears that it is down
    network.run();
    SessionServerOptions options;
    options.server_major_id = "server";
    options.server_key = [this](const nfs4::ExchangeIdArgs&) { return key; };
    server.emplace(options, holding, clock, random);
  }
  // The client, who is a server of the system, shows another one from now on.
  void change_key() { server->keys_changed(std::span(&++key, 1)); }

  void turn() {
    context.restart();
    context.poll();
    network.step();
  }
  void settle() {
    for (int i = 0; i < 50; ++i) {
      context.restart();
      context.poll();
      network.run();
    }
  }

  void write(std::uint64_t offset, bool idempotent) {
    auto data = pool.allocate(8);
    REQUIRE(data);
    nfs4::WriteArgs args;
    args.offset = offset;
    args.data.push_back(std::move(*data));
    std::vector<nfs4::OpArgs> ops;
    ops.push_back({Op::OP_PUTFH, nfs4::PutFhArgs{}});
    ops.push_back({Op::OP_WRITE, std::move(args)});
    client->call(std::move(ops), {.idempotent = idempotent},
                 [this, offset](Result<nfs4::CompoundResult> result) {
                   ++answers[offset];
                   if (result && result->status == Status::NFS4_OK) acknowledged.push_back(offset);
                 });
  }

  BufferPool pool{std::size_t{64} << 20};
  SeededRandom random;
  ManualClock clock;
  MemoryNetwork network;
  test::MemoryHandler handler;
  Holding holding;
  std::uint64_t key = 0;  // that the client shows; 0: none
  std::optional<SessionServer> server;
  boost::asio::io_context context;
  std::optional<SessionClient> client;
  std::map<std::uint64_t, int> answers;
  std::vector<std::uint64_t> acknowledged;
};

// Cuts, new addresses, restarts (if asked) and calls in a random order, then waits for every
// answer.
void storm(World& world, std::uint64_t seed, int calls, bool restarts, bool idempotent) {
  SeededRandom random(seed);
  int issued = 0;
  int troubles = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (static_cast<int>(world.answers.size()) < calls && std::chrono::steady_clock::now() < end) {
    if (issued < calls && random.below(4) == 0) {
      world.write(static_cast<std::uint64_t>(issued++) * 8, idempotent);
    }
    if (troubles < 6 && world.network.connections() > 0 && random.below(60) == 0) {
      ++troubles;
      if (restarts && random.below(3) == 0) {
        world.restart();
      } else if (random.below(3) == 0) {
        world.client->reconnect();
      } else {
        world.network.cut(random.below(world.network.connections()));
      }
    }
    world.turn();
  }
}

}  // namespace

TEST_CASE("connections cut and made anew: every call succeeds, each executed exactly once") {
  REQUIRE(rc::check([](std::uint64_t seed) {
    World world(seed);
    constexpr int kCalls = 40;
    storm(world, seed + 1, kCalls, false, false);
    RC_ASSERT(world.acknowledged.size() == std::size_t{kCalls});
    for (const auto& [offset, times] : world.answers) RC_ASSERT(times == 1);
    const auto writes = world.handler.writes_at();
    RC_ASSERT(writes.size() == std::size_t{kCalls});
    for (const auto& [offset, times] : writes) RC_ASSERT(times == 1);
  }));
}

TEST_CASE(
    "a server that forgets everything: nothing twice, nothing acknowledged that was not done") {
  REQUIRE(rc::check([](std::uint64_t seed) {
    World world(seed);
    constexpr int kCalls = 40;
    storm(world, seed + 1, kCalls, true, false);
    RC_ASSERT(world.answers.size() == std::size_t{kCalls});
    const auto writes = world.handler.writes_at();
    for (const auto& [offset, times] : writes) RC_ASSERT(times == 1);
    for (const std::uint64_t offset : world.acknowledged) RC_ASSERT(writes.contains(offset));
  }));
}

TEST_CASE("sessions that end as the key is changed: every call succeeds, executed exactly once") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    World world(seed);
    world.holding.holds = seed % 4 == 0;
    world.change_key();
    SeededRandom random(seed + 1);
    constexpr int kCalls = 40;
    int issued = 0;
    int changes = 0;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (static_cast<int>(world.answers.size()) < kCalls &&
           std::chrono::steady_clock::now() < end) {
      if (issued < kCalls && random.below(2) == 0) {
        world.write(static_cast<std::uint64_t>(issued++) * 8, false);
      }
      if (changes < 3 && issued > 10 * changes + 5 && random.below(20) == 0) {
        ++changes;
        world.change_key();
      }
      if (random.below(2) == 0) world.holding.release_one();
      world.server->expire();
      world.turn();
    }
    CHECK(changes > 0);
    CHECK(world.acknowledged.size() == std::size_t{kCalls});
    const auto writes = world.handler.writes_at();
    CHECK(writes.size() == std::size_t{kCalls});
    for (const auto& [offset, times] : writes) CHECK(times == 1);
  }
}

TEST_CASE("a network that hangs and breaks while the session is made: it is made after that") {
  // One of these moments is between RECLAIM_COMPLETE and its answer.
  for (int moment = 0; moment < 40; ++moment) {
    World world(static_cast<std::uint64_t>(moment) + 1,
                {.connect_deadline = std::chrono::milliseconds(20)});
    bool ready = false;
    world.client->when_ready(std::chrono::seconds(60),
                             [&ready](Result<> stands) { ready = stands.has_value(); });
    for (int i = 0; i < moment; ++i) world.turn();
    const auto moves = std::chrono::steady_clock::now() + std::chrono::milliseconds(60);
    while (std::chrono::steady_clock::now() < moves) {
      world.context.restart();
      world.context.poll();
    }
    for (std::size_t i = 0; i < world.network.connections(); ++i) world.network.cut(i);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!ready && std::chrono::steady_clock::now() < end) world.turn();
    CHECK(ready);
  }
}

TEST_CASE("idempotent calls all succeed, whatever the server forgets") {
  REQUIRE(rc::check([](std::uint64_t seed) {
    World world(seed);
    constexpr int kCalls = 40;
    storm(world, seed + 1, kCalls, true, true);
    RC_ASSERT(world.acknowledged.size() == std::size_t{kCalls});
    RC_ASSERT(world.handler.writes_at().size() == std::size_t{kCalls});
  }));
}

TEST_CASE("a session that is idle does nothing") {
  World world(3);
  world.write(0, false);
  while (world.answers.empty()) world.turn();
  world.settle();
  world.context.restart();
  CHECK(world.context.run_for(std::chrono::milliseconds(300)) == 0);
}

TEST_CASE("a call that nobody answers is told of at its deadline") {
  World world(4);
  world.write(0, false);
  while (world.answers.empty()) world.turn();
  std::optional<Result<nfs4::CompoundResult>> answer;
  std::vector<nfs4::OpArgs> ops;
  ops.push_back({Op::OP_PUTROOTFH, nfs4::None{}});
  world.client->call(std::move(ops), {.deadline = std::chrono::milliseconds(50)},
                     [&](Result<nfs4::CompoundResult> result) { answer = std::move(result); });
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!answer && std::chrono::steady_clock::now() < end) {
    world.context.restart();
    world.context.run_for(std::chrono::milliseconds(20));  // the network takes nothing
  }
  REQUIRE(answer);
  REQUIRE_FALSE(*answer);
  CHECK(answer->error().code == Errc::kTimedOut);
}

TEST_CASE("time in which the client did not run is not the server's") {
  World world(5);
  world.write(0, false);
  while (world.answers.empty()) world.turn();
  std::optional<Result<nfs4::CompoundResult>> answer;
  std::vector<nfs4::OpArgs> ops;
  ops.push_back({Op::OP_PUTFH, nfs4::PutFhArgs{}});
  world.client->call(std::move(ops), {.deadline = std::chrono::milliseconds(300)},
                     [&](Result<nfs4::CompoundResult> result) { answer = std::move(result); });
  world.context.restart();
  world.context.poll();  // it is sent
  REQUIRE_FALSE(answer);
  std::this_thread::sleep_for(std::chrono::milliseconds(2000));
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!answer && std::chrono::steady_clock::now() < end) world.turn();
  REQUIRE(answer);
  CHECK(answer->has_value());
}

TEST_CASE("calls that were given up hold no memory while the server is away") {
  World world(1);
  world.write(0, true);
  while (world.answers.empty()) world.turn();
  const std::size_t before = world.pool.in_use_bytes();
  std::stop_source stop;
  int given_up = 0;
  for (int i = 0; i < 4; ++i) {
    auto data = world.pool.allocate(std::size_t{1} << 20);
    REQUIRE(data);
    nfs4::WriteArgs args;
    args.data.push_back(std::move(*data));
    std::vector<nfs4::OpArgs> ops;
    ops.push_back({Op::OP_PUTFH, nfs4::PutFhArgs{}});
    ops.push_back({Op::OP_WRITE, std::move(args)});
    // As a deadline that passes, or who made them: half of them each.
    world.client->call(std::move(ops),
                       {.deadline = std::chrono::milliseconds(i % 2 == 0 ? 20 : 60'000),
                        .idempotent = true,
                        .give_up = i % 2 == 0 ? std::stop_token() : stop.get_token()},
                       [&](const Result<nfs4::CompoundResult>&) { ++given_up; });
  }
  CHECK(world.pool.in_use_bytes() >= before + (std::size_t{4} << 20));
  world.context.restart();
  world.context.poll();  // they are sent
  world.server.reset();
  for (std::size_t i = 0; i < world.network.connections(); ++i) world.network.cut(i);
  stop.request_stop();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (world.pool.in_use_bytes() > before && std::chrono::steady_clock::now() < end) world.turn();
  CHECK(world.pool.in_use_bytes() <= before);
  CHECK(given_up >= 2);
}

TEST_CASE("a call that was given up is settled, and not carried out after that") {
  // The connection breaks with the call or its answer at any point of the way.
  for (int moment = 0; moment < 24; ++moment) {
    World world(static_cast<std::uint64_t>(moment) + 1);
    world.write(0, true);
    while (world.answers.empty()) world.turn();
    auto data = world.pool.allocate(8);
    REQUIRE(data);
    nfs4::WriteArgs args;
    args.offset = 8;
    args.data.push_back(std::move(*data));
    std::vector<nfs4::OpArgs> ops;
    ops.push_back({Op::OP_PUTFH, nfs4::PutFhArgs{}});
    ops.push_back({Op::OP_WRITE, std::move(args)});
    std::stop_source stop;
    auto unsettled = std::make_shared<int>();
    const std::weak_ptr<int> may_be_done = unsettled;
    int answers = 0;
    const bool by_deadline = moment % 2 == 1;
    world.client->call(std::move(ops),
                       {.deadline = std::chrono::milliseconds(by_deadline ? 20 : 60'000),
                        .idempotent = true,
                        .give_up = stop.get_token(),
                        .unsettled = std::move(unsettled)},
                       [&](const Result<nfs4::CompoundResult>&) { ++answers; });
    for (int i = 0; i < moment / 2; ++i) world.turn();
    if (by_deadline) {
      world.context.restart();
      world.context.run_for(std::chrono::milliseconds(40));
    } else {
      stop.request_stop();
    }
    for (std::size_t i = 0; i < world.network.connections(); ++i) world.network.cut(i);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!may_be_done.expired() && std::chrono::steady_clock::now() < end) world.turn();
    REQUIRE(may_be_done.expired());
    const auto done = world.handler.writes_at().contains(8);
    if (answers > 0 && moment < 2) CHECK_FALSE(done);
    world.write(16, true);
    while (!world.answers.contains(16) && std::chrono::steady_clock::now() < end) world.turn();
    world.settle();
    CHECK(answers == 1);
    CHECK(world.handler.writes_at().contains(8) == done);
    CHECK(world.handler.writes_at()[16] == 1);
  }
}

TEST_CASE("slots: the lowest first, a number used only when executed, never above the target") {
  ClientSlots slots;
  slots.reset(3);
  CHECK(*slots.acquire() == 0);
  CHECK(*slots.acquire() == 1);
  CHECK(slots.highest_used() == 1);
  slots.release(0, false);
  CHECK(slots.sequence(0) == 1);
  CHECK(*slots.acquire() == 0);
  slots.release(0, true);
  CHECK(slots.sequence(0) == 2);
  slots.set_target(0);
  slots.release(1, true);
  CHECK(*slots.acquire() == 0);
  CHECK_FALSE(slots.acquire());
  slots.set_target(9);  // more than the session has
  CHECK_FALSE(slots.acquire());
}
