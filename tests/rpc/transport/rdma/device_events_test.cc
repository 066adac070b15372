// Completions on their way from a device to who waits for them: one thread, a device that is a
// double, and many connections.
#include "rpc/transport/rdma/device_events.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <chrono>
#include <functional>
#include <optional>

#include "rpc/base/shared_memory.h"
#include "rpc/transport/rdma/verbs_queue_pair.h"
#include "tests/rpc/transport/rdma/fake_verbs.h"

using namespace weft;
using namespace weft::rpc;
using namespace weft::rpc::rdma;
using test::FakeVerbs;

namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20;

// The user of one connection: takes what comes, and has room for as much again.
struct User final : QueuePairUser {
  void on_completion(Completion completion) override {
    if (!completion.done) return;
    CHECK(ended == 0);
    ++received;
    if (completion.work.kind == Work::Kind::kReceive) pair->post(std::move(completion.work));
    if (on_received) on_received();
  }
  void on_disconnected(const Error& why) override {
    ++ended;
    code = why.code;
  }
  rdma_cm_id* id = nullptr;
  std::unique_ptr<QueuePair> pair;
  std::function<void()> on_received;
  std::size_t received = 0;
  std::size_t ended = 0;
  std::optional<Errc> code;
};

struct Rig {
  Rig() {
    pool.arena()->pin();
    REQUIRE(events->open());
    turn();
  }
  ~Rig() {
    if (events != nullptr) events->close();
    if (context) {
      context->restart();
      context->run_for(std::chrono::seconds(10));
      CHECK(context->stopped());  // there is nothing left to wait for
    }
    users.clear();
    CHECK(pool.in_use_bytes() == 0);
  }
  void connect(std::size_t count, std::size_t receives) {
    for (std::size_t i = 0; i < count; ++i) {
      auto user = std::make_shared<User>();
      user->id = verbs.connection(events->connections());
      const ConnectionEvent request{.type = RDMA_CM_EVENT_CONNECT_REQUEST,
                                    .id = user->id,
                                    .responder_resources = 16,
                                    .initiator_depth = 16};
      user->pair = make_queue_pair(events, devices.of(verbs.verbs()).value(),
                                   std::make_shared<ConnectionId>(user->id), request, "peer",
                                   {.receives = receives, .work = 16})
                       .value();
      for (std::size_t n = 0; n < receives; ++n) {
        user->pair->post(
            {.kind = Work::Kind::kReceive, .memory = pool.allocate(4096).value(), .remote = {}});
      }
      user->pair->start(user);
      users.push_back(std::move(user));
    }
  }
  void turn() {
    context->restart();
    context->poll();
  }
  [[nodiscard]] bool all_received(std::size_t count) const {
    return std::ranges::all_of(users, [&](const auto& user) { return user->received == count; });
  }

  FakeVerbs verbs;
  BufferPool pool{32 * kMebibyte,
                  std::make_shared<Arena>(SharedMemory::create(64 * kMebibyte, "test").value())};
  Devices devices{pool.arena()->memory()};
  std::optional<boost::asio::io_context> context{std::in_place, 1};
  std::shared_ptr<DeviceEvents> events = std::make_shared<DeviceEvents>(*context, 5);
  std::vector<std::shared_ptr<User>> users;
};

}  // namespace

TEST_CASE("queues of a thread have a completion vector that the device has") {
  Rig rig;
  for (const auto& [vectors, expected] : {std::pair{1, 0}, {4, 1}, {6, 5}, {64, 5}, {0, 0}}) {
    CAPTURE(vectors);
    rig.verbs.verbs()->num_comp_vectors = vectors;
    rig.connect(1, 4);
    CHECK(rig.verbs.last_vector == expected);
  }
}

TEST_CASE("a lone connection's completions take one look each") {
  Rig rig;
  rig.connect(1, 4);
  for (std::size_t count = 1; count < 10; ++count) {
    REQUIRE(rig.verbs.send(rig.users[0]->id));
    rig.turn();
    CHECK(rig.users[0]->received == count);
    CHECK(rig.verbs.looks == count);
  }
}

TEST_CASE("any number of connections may complete at once, again and again") {
  const std::size_t connections = GENERATE(2, 63, 64, 65, 66, 129, 300);
  CAPTURE(connections);
  Rig rig;
  rig.connect(connections, 12);
  for (std::size_t round = 1; round < 5; ++round) {
    for (const auto& user : rig.users) REQUIRE(rig.verbs.send(user->id));
    rig.turn();
    CHECK(rig.all_received(round));
  }
  // While they are told, more comes: of each of them from its neighbour.
  for (std::size_t i = 0; i < connections; ++i) {
    User& user = *rig.users[i];
    User& next = *rig.users[(i + 1) % connections];
    user.on_received = [&rig, &user, &next] {
      if (user.received < 10) CHECK(rig.verbs.send(next.id));
    };
  }
  for (const auto& user : rig.users) REQUIRE(rig.verbs.send(user->id));
  rig.turn();
  CHECK(rig.all_received(10));
}

TEST_CASE("connections that end while others complete take nobody's completions along") {
  Rig rig;
  rig.connect(200, 2);
  for (std::size_t i = 0; i < 200; i += 2) {
    rig.users[i]->on_received = [&, i] { rig.users[i + 1]->pair->disconnect(); };
  }
  for (std::size_t i = 0; i < 200; i += 2) REQUIRE(rig.verbs.send(rig.users[i]->id));
  for (std::size_t i = 1; i < 200; i += 2) REQUIRE(rig.verbs.send(rig.users[i]->id));
  rig.turn();
  for (std::size_t i = 0; i < 200; ++i) {
    CHECK(rig.users[i]->ended == i % 2);
    if (i % 2 == 0) CHECK(rig.users[i]->received == 1);
  }
}

TEST_CASE("a connection to which more comes than one turn takes hides no other's completion") {
  constexpr std::size_t kSent = 2000;
  for (std::size_t moment = 1; moment <= kSent; moment += 37) {
    CAPTURE(moment);
    Rig rig;
    rig.connect(2, 256);
    User& busy = *rig.users[0];
    User& other = *rig.users[1];
    std::size_t sent = 0;
    const auto send = [&] {
      if (sent == kSent) return;
      ++sent;
      CHECK(rig.verbs.send(busy.id));
    };
    busy.on_received = [&] {
      send();
      if (busy.received == moment) CHECK(rig.verbs.send(other.id));
    };
    for (int i = 0; i < 200; ++i) send();
    rig.turn();
    CHECK(busy.received == kSent);
    CHECK(other.received == 1);
  }
}

TEST_CASE("a peer that closes and goes on to send does not keep the thread") {
  constexpr std::size_t kReceives = 64;
  Rig rig;
  rig.connect(1, kReceives);
  User& peer = *rig.users[0];
  peer.on_received = [&] {
    if (peer.received < 10'000) CHECK(rig.verbs.send(peer.id));
  };
  for (std::size_t i = 0; i < kReceives; ++i) REQUIRE(rig.verbs.send(peer.id));
  rig.verbs.tell(peer.id, RDMA_CM_EVENT_DISCONNECTED);
  rig.turn();
  CHECK(peer.code == Errc::kClosed);
  CHECK(peer.received >= kReceives);
  CHECK(peer.received < 1'000);
}

TEST_CASE("events may be closed in the middle, and with their context") {
  Rig rig;
  rig.connect(1, 256);
  rig.connect(99, 4);
  const auto end = [&] { rig.events->close(); };
  SECTION("while connections are told, and others are still to be") {
    rig.users[50]->on_received = [&] { boost::asio::post(*rig.context, end); };
    for (const auto& user : rig.users) REQUIRE(rig.verbs.send(user->id));
    rig.turn();
  }
  SECTION("while a connection has more than one turn takes") {
    User& busy = *rig.users[0];
    busy.on_received = [&] {
      CHECK(rig.verbs.send(busy.id));
      if (busy.received == 100) boost::asio::post(*rig.context, end);
    };
    for (int i = 0; i < 200; ++i) REQUIRE(rig.verbs.send(busy.id));
    rig.turn();
  }
  SECTION("with something that nobody was told of") {
    for (const auto& user : rig.users) REQUIRE(rig.verbs.send(user->id));
    end();
  }
  SECTION("of a thread that runs no more, with its context") {
    for (const auto& user : rig.users) REQUIRE(rig.verbs.send(user->id));
    rig.context->stop();
    end();
    for (const auto& user : rig.users) user->pair.reset();  // they keep the events
    rig.events.reset();
    rig.context.reset();
  }
  for (const auto& user : rig.users) {
    CHECK(user->ended == 1);
    CHECK(user->code == Errc::kClosed);
  }
}

TEST_CASE("what is registered with a device goes with the last who uses it") {
  FakeVerbs verbs;
  Devices devices(SharedMemory::create(kMebibyte, "test").value());
  auto listener = devices.of(verbs.verbs()).value();
  auto connection = devices.of(verbs.verbs()).value();
  CHECK(listener == connection);
  const std::size_t registered = verbs.objects();
  CHECK(registered > 0);
  listener.reset();
  CHECK(verbs.objects() == registered);
  connection.reset();
  CHECK(verbs.objects() == 0);
  // Another device, whose verbs have the address of the first one's.
  connection = devices.of(verbs.verbs()).value();
  CHECK(verbs.objects() == registered);
}

TEST_CASE("when a device is gone nothing of it is left, at no thread that had connections by it") {
  Rig rig;
  rig.connect(3, 4);
  REQUIRE(rig.verbs.send(rig.users[0]->id));
  rig.turn();
  rig.verbs.remove_device();
  rig.turn();
  for (const auto& user : rig.users) CHECK(user->code == Errc::kUnreachable);
  CHECK(rig.verbs.objects_when_gone == 0);
  CHECK(rig.verbs.objects() == 0);
}
