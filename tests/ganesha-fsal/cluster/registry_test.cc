#include "ganesha-fsal/cluster/registry.h"

#include <catch2/catch_test_macros.hpp>
#include <future>
#include <map>
#include <set>

#include "rpc/control/mds_boot.h"
#include "tests/ganesha-fsal/meta/held_sync.h"
#include "tests/ganesha-fsal/meta/memory_kv.h"

using namespace weft;
using namespace weft::mds;
using namespace std::chrono_literals;
using layout::ServerState;

namespace {

control::Uuid uuid(std::uint8_t value) {
  control::Uuid id;
  id.fill(std::byte{value});
  return id;
}

const layout::NetAddress kFrom = layout::make_address("192.0.2.9", 55555).value();

control::Register request(std::uint8_t store, std::uint16_t port = 2049) {
  control::Register request;
  request.store = uuid(store);
  request.boot = 1;
  request.name = "ds" + std::to_string(store);
  request.addresses = {layout::make_address("192.0.2.1", port).value()};
  request.space = {1000, 500, 3};
  return request;
}

struct Fixture {
  MemoryKv store;
  Registry::Clock::time_point now{1h};
  std::unique_ptr<Registry> registry = open();

  std::unique_ptr<Registry> open(std::uint32_t salt = 77, std::uint32_t lease = 60,
                                 std::uint64_t boot = 0) {
    RegistryOptions options;
    options.boot = boot;
    options.lease_seconds = lease;
    options.cluster = uuid(200);
    options.device_salt = salt;
    options.now = [this] { return now; };
    auto opened = Registry::open(store, options);
    REQUIRE(opened);
    return std::move(*opened);
  }
  std::uint32_t add(std::uint8_t which, std::uint16_t port = 2049) {
    auto registered = registry->register_server(kFrom, request(which, port));
    REQUIRE(registered);
    registry->connected(registered->ds_id);
    (void)registry->heartbeat(registered->ds_id, {});
    return registered->ds_id;
  }
};

}  // namespace

TEST_CASE("a store is given one id for ever") {
  Fixture f;
  CHECK(f.add(1) == 1);
  CHECK(f.add(2) == 2);
  CHECK(f.add(1) == 1);
  f.registry = f.open();
  CHECK(f.add(2) == 2);
  CHECK(f.add(3) == 3);
}

TEST_CASE(
    "while a change waits for the disk, who asks gets answers and who changes gets his turn") {
  Fixture f;
  f.add(1);
  HeldSync held(f.store);
  RegistryOptions options{.cluster = uuid(200), .device_salt = 77};
  options.now = [&f] { return f.now; };
  options.longest_wait = 1ms;
  auto registry = Registry::open(held, options);
  REQUIRE(registry);
  held.hold();
  auto second = std::async(std::launch::async,
                           [&] { return (*registry)->register_server(kFrom, request(2)); });
  REQUIRE(held.await_held());
  CHECK((*registry)->list().size() == 1);
  CHECK((*registry)->set_duty(1, Duty::kDraining).error() == Errc::kBusy);
  CHECK((*registry)->device_for(std::vector<std::uint32_t>{1}).error() == Errc::kBusy);
  held.let_go();
  REQUIRE(second.get());
  CHECK((*registry)->set_duty(1, Duty::kDraining));
  CHECK((*registry)->device_for(std::vector<std::uint32_t>{1, 2}));
  CHECK((*registry)->set_duty(2, Duty::kRemoving));
  CHECK((*registry)->remove_server(2));
}

TEST_CASE("where a data server is on its machine is what its last process said") {
  Fixture f;
  auto here = request(1);
  here.local = {.machine = uuid(9), .user = 7, .socket = "/run/weft/ds1"};
  REQUIRE(f.registry->register_server(kFrom, here));
  CHECK(f.registry->find(1)->local == here.local);
  f.add(1);
  CHECK(f.registry->find(1)->local == LocalEndpoint{});
}

TEST_CASE("a returning store is confirmed, one that claims too much refused") {
  Fixture f;
  f.add(1);
  auto again = request(1);
  again.cluster = uuid(200);
  again.ds_id = 1;
  CHECK(f.registry->register_server(kFrom, again)->ds_id == 1);
  again.ds_id = 2;
  CHECK(f.registry->register_server(kFrom, again).error() == Errc::kInvalid);
  auto foreign = request(1);
  foreign.cluster = uuid(201);
  CHECK(f.registry->register_server(kFrom, foreign).error() == Errc::kAccess);
  auto forgotten = request(9);
  forgotten.cluster = uuid(200);
  forgotten.ds_id = 9;
  CHECK(f.registry->register_server(kFrom, forgotten).error() == Errc::kInvalid);
  auto silent = request(4);
  silent.addresses.clear();
  CHECK(f.registry->register_server(kFrom, silent).error() == Errc::kInvalid);
}

TEST_CASE("a server that listens on all addresses gets the one it comes from") {
  Fixture f;
  auto any = request(1);
  any.addresses = {layout::make_address("0.0.0.0", 2050).value()};
  REQUIRE(f.registry->register_server(kFrom, any));
  CHECK(to_string(f.registry->find(1)->record.addresses.at(0)) == "192.0.2.9:2050");
}

TEST_CASE("clients are told of RDMA before TCP, by another device, for as long as it is there") {
  Fixture f;
  const std::uint32_t id = f.add(1);
  const auto tcp_only = f.registry->device_for({&id, 1}).value();
  auto both = request(1);
  both.rdma = {layout::make_address("0.0.0.0", 20049).value()};
  REQUIRE(f.registry->register_server(kFrom, both));
  const auto with_rdma = f.registry->device_for({&id, 1}).value();
  CHECK(with_rdma->number != tcp_only->number);
  std::vector<std::string> told;
  for (const auto& address : with_rdma->members.at(0).addresses) told.push_back(to_string(address));
  CHECK(told == std::vector<std::string>{"rdma://192.0.2.9:20049", "192.0.2.1:2049"});
  REQUIRE(f.registry->register_server(kFrom, both));  // nothing has changed
  CHECK(f.registry->device_for({&id, 1}).value()->number == with_rdma->number);
  f.registry = f.open();  // and it is durable
  CHECK(f.registry->find(1)->record.rdma.size() == 1);
  CHECK(f.registry->device_for({&id, 1}).value()->number == with_rdma->number);
  // One that has no device any more, or is of a version that does not tell.
  const auto before = f.registry->find(1)->record.address_generation;
  f.now += 500s;
  REQUIRE(f.registry->register_server(kFrom, request(1)));
  CHECK(f.registry->find(1)->record.address_generation == before + 1);
  CHECK(f.registry->device_for({&id, 1}).value()->members.at(0).addresses.size() == 1);
}

TEST_CASE("networks of clients are durable, and make another device when they change") {
  Fixture f;
  const std::uint32_t id = f.add(1);
  const auto before = f.registry->device_for({&id, 1}).value();
  const auto far = layout::make_address("203.0.113.9", 0).value();
  const auto near = layout::make_address("10.1.2.3", 0).value();
  CHECK(f.registry->is_for(id, far));
  CHECK(f.registry->is_for(id, std::nullopt));
  CHECK(f.registry->is_for(99, near));
  auto in_networks = request(1);
  in_networks.networks = {{.name = "storage",
                           .addresses = {layout::make_address("10.0.0.1", 2049).value()},
                           .clients = {layout::parse_range("10.0.0.0/8").value()}}};
  REQUIRE(f.registry->register_server(kFrom, in_networks));
  const auto with = f.registry->device_for({&id, 1}).value();
  CHECK(with->number != before->number);
  CHECK(layout::addresses_for(with->members.at(0), near).size() == 1);
  CHECK(layout::addresses_for(with->members.at(0), far).empty());
  f.registry = f.open();
  CHECK(f.registry->find(1)->record.networks == in_networks.networks);
  CHECK(f.registry->device_for({&id, 1}).value()->number == with->number);
  CHECK(f.registry->is_for(id, near));
  CHECK_FALSE(f.registry->is_for(id, far));
  CHECK_FALSE(f.registry->is_for(id, std::nullopt));
  f.now += 500s;
  in_networks.networks.front().clients.push_back(layout::parse_range("203.0.113.0/24").value());
  REQUIRE(f.registry->register_server(kFrom, in_networks));
  CHECK(f.registry->device_for({&id, 1}).value()->number != with->number);
  CHECK(f.registry->is_for(id, far));
}

TEST_CASE("a lease is granted to a data server that has its fences, for each connection anew") {
  Fixture f;
  f.add(1);
  CHECK(f.registry->heartbeat(1, {}).lease.seconds == 0);
  f.registry->caught_up(1, 1);
  CHECK(f.registry->heartbeat(1, {}).lease.seconds == 60);
  f.registry->connected(1);
  f.registry->caught_up(1, 1);  // of the connection before
  const auto first = f.registry->heartbeat(1, {});
  CHECK(first.first_of == 2);
  CHECK(first.lease.seconds == 0);
  f.registry->caught_up(1, 2);
  CHECK(f.registry->heartbeat(1, {}).lease.seconds == 60);
}

TEST_CASE("a lease has lapsed when it surely has, and is not granted before all is caught up") {
  Fixture f;
  f.add(1);
  f.registry->caught_up(1, 1);
  f.now += 500s;
  (void)f.registry->heartbeat(1, {});
  f.now += 64s;  // 60 s, 5 %, and 2 s: after 65
  CHECK_FALSE(f.registry->lapse(1));
  f.now += 1s;
  CHECK(f.registry->lapse(1));
  CHECK(f.registry->heartbeat(1, {}).lease.seconds == 0);
  f.registry->caught_up(1, 1);  // looked up before what made us ask was recorded
  CHECK(f.registry->heartbeat(1, {}).lease.seconds == 0);
  CHECK(f.registry->lapse(1));
}

TEST_CASE("a data server whose process is dead has no lease, until it connects anew") {
  Fixture f;
  f.add(1);
  f.registry->caught_up(1, 1);
  CHECK(f.registry->heartbeat(1, {}).lease.seconds == 60);
  CHECK(f.registry->lost().empty());
  f.registry->disconnected(1);
  CHECK(f.registry->lost().empty());  // it may be back at once
  f.now += 1s;
  REQUIRE(f.registry->lost().size() == 1);
  const auto lost = f.registry->lost().front();
  CHECK(lost.addresses.size() == 1);
  CHECK_FALSE(f.registry->lapse(1));
  SECTION("found so") {
    CHECK(f.registry->found_dead(1, lost.connection));
    CHECK(f.registry->is_dead(1));
    CHECK(f.registry->lapse(1));
    CHECK(f.registry->lost().empty());
    f.registry->connected(1);
    CHECK_FALSE(f.registry->is_dead(1));
    CHECK_FALSE(f.registry->lapse(1));
  }
  SECTION("too late") {
    f.registry->connected(1);
    f.registry->disconnected(1);
    CHECK_FALSE(f.registry->found_dead(1, lost.connection));
    CHECK_FALSE(f.registry->lapse(1));
  }
  SECTION("one not seen since the start") {
    f.registry = f.open();
    f.now += 10s;
    REQUIRE(f.registry->lost().size() == 1);
    CHECK(f.registry->found_dead(1, 0));
    CHECK(f.registry->lapse(1));
  }
}

TEST_CASE("one that is silent on an open connection is gone once it is found dead") {
  Fixture f;
  f.add(1);
  f.registry->caught_up(1, 1);
  CHECK(f.registry->heartbeat(1, {}).lease.seconds == 60);
  f.now += 2400ms;
  CHECK(f.registry->lost().empty());
  f.now += 100ms;
  REQUIRE(f.registry->lost().size() == 1);
  const auto silent = f.registry->lost().front();
  CHECK(f.registry->reach(1) == Reach::kHere);
  SECTION("found so") {
    CHECK(f.registry->found_dead(1, silent.connection));
    CHECK(f.registry->reach(1) == Reach::kGone);
    CHECK(f.registry->lapse(1));
    CHECK(f.registry->lost().empty());
    f.registry->disconnected(1);
    CHECK(f.registry->reach(1) == Reach::kGone);  // not a moment of hope more
  }
  SECTION("heard meanwhile") {
    (void)f.registry->heartbeat(1, {});
    CHECK_FALSE(f.registry->found_dead(1, silent.connection));
    CHECK(f.registry->reach(1) == Reach::kHere);
    CHECK_FALSE(f.registry->lapse(1));
  }
}

TEST_CASE("heartbeats that were answered without a lease do not put off its end") {
  Fixture f;
  f.add(1);
  f.now += 65s;
  (void)f.registry->heartbeat(1, {});
  CHECK(f.registry->lapse(1));
}

TEST_CASE("of a data server not heard since the start, the longest lease ever counts") {
  Fixture f;
  f.add(1);
  f.registry = f.open(77, 100);
  f.registry = f.open(77, 10);
  f.now += 106s;
  CHECK_FALSE(f.registry->lapse(1));
  f.now += 1s;
  CHECK(f.registry->lapse(1));
}

TEST_CASE("up, suspect and down follow the heartbeats") {
  Fixture f;
  CHECK_FALSE(f.registry->find(1));
  auto registered = f.registry->register_server(kFrom, request(1));
  REQUIRE(registered);
  const auto state = [&] { return f.registry->find(1)->state; };
  CHECK(state() == ServerState::kSuspect);
  f.registry->connected(1);
  CHECK(f.registry->reach(1) != Reach::kHere);  // its fences may not be in force yet
  CHECK(f.registry->heartbeat(1, {}).first_of == 1);
  CHECK(f.registry->heartbeat(1, {}).first_of == 0);
  CHECK(f.registry->reach(1) == Reach::kHere);
  CHECK(state() == ServerState::kUp);
  f.now += 3s;
  CHECK(state() == ServerState::kUp);
  f.now += 1s;
  CHECK(state() == ServerState::kSuspect);
  (void)f.registry->heartbeat(1, {});
  CHECK(state() == ServerState::kUp);
  f.registry->disconnected(1);
  CHECK(state() == ServerState::kSuspect);
  f.now += 10s;
  CHECK(state() == ServerState::kDown);
  layout::LayoutMap map;
  map.copies = {{layout::CopyState::kCurrent, 0, {1, 5}}};
  CHECK(f.registry->down_of(map) == std::vector<std::uint32_t>{1, 5});
  CHECK(f.registry->find(1)->silence == 10s);

  f.registry = f.open();  // not heard since the start
  CHECK(state() == ServerState::kDown);
  CHECK_FALSE(f.registry->find(1)->seen);
}

TEST_CASE("a data server is here, waited for a moment, or gone") {
  Fixture f;
  auto registered = f.registry->register_server(kFrom, request(1));
  REQUIRE(registered);
  CHECK(f.registry->reach(1) == Reach::kWait);
  f.registry->connected(1);
  CHECK(f.registry->reach(1) == Reach::kWait);
  (void)f.registry->heartbeat(1, {});
  CHECK(f.registry->reach(1) == Reach::kHere);
  f.now += 4s;
  CHECK(f.registry->reach(1) == Reach::kHere);
  f.now += 1s;  // silent for 5 s
  CHECK(f.registry->reach(1) == Reach::kGone);
  (void)f.registry->heartbeat(1, {});
  CHECK(f.registry->reach(1) == Reach::kHere);
  f.registry->disconnected(1);
  CHECK(f.registry->reach(1) == Reach::kWait);
  f.now += 1s;
  CHECK(f.registry->reach(1) == Reach::kGone);

  f.registry = f.open();  // not heard since the start
  CHECK(f.registry->reach(1) == Reach::kWait);
  f.now += 10s;
  CHECK(f.registry->reach(1) == Reach::kGone);
  CHECK(f.add(1) == 1);
  CHECK(f.registry->reach(1) == Reach::kHere);
}

TEST_CASE("one that registers again and again, and is never in order, is gone") {
  Fixture f;
  f.add(1);
  f.registry->disconnected(1);
  for (int i = 0; i < 5; ++i) {
    REQUIRE(f.registry->register_server(kFrom, request(1, 100)));
    f.registry->connected(1);
    f.now += 300ms;
    f.registry->disconnected(1);
    f.now += 300ms;
    CHECK(f.registry->reach(1) == (i == 0 ? Reach::kWait : Reach::kGone));
  }
  CHECK(f.registry->gone_for(1) == 3s);
  f.add(1);
  CHECK(f.registry->reach(1) == Reach::kHere);
}

TEST_CASE("nor is one in order that is heard and does not fence what earlier runs have sent") {
  Fixture f;
  f.registry = f.open(77, 60, control::mds_boot(7, 1234));
  for (int i = 0; i < 5; ++i) {
    REQUIRE(f.registry->register_server(kFrom, request(1)));
    f.registry->connected(1);
    (void)f.registry->heartbeat(1, {});
    f.now += 5s;
    f.registry->disconnected(1);  // the fence was not answered in time
    CHECK(f.registry->reach(1) == (i == 0 ? Reach::kWait : Reach::kGone));
    f.now += 1s;
  }
  CHECK(f.registry->gone_for(1) == 30s);
}

TEST_CASE("a store that comes and goes, and is never caught up with, is gone all the while") {
  Fixture f;
  f.add(1);
  f.registry->caught_up(1, 1);
  control::Heartbeat gone;
  gone.trouble = "its target does not answer";
  (void)f.registry->heartbeat(1, gone);
  for (int i = 1; i <= 5; ++i) {
    f.now += 1s;
    (void)f.registry->heartbeat(1, {});
    CHECK(f.registry->gone_for(1) == i * 1s);
    (void)f.registry->heartbeat(1, gone);
  }
  CHECK(f.registry->gone_for(1) == 5s);
}

TEST_CASE("one whose store is not there has stopped serving, until it has caught up again") {
  Fixture f;
  f.add(1);
  f.registry->caught_up(1, 1);
  REQUIRE(f.registry->heartbeat(1, {}).lease.seconds == 60);
  CHECK_FALSE(f.registry->lapse(1));
  control::Heartbeat gone;
  gone.trouble = "its target does not answer";
  auto beat = f.registry->heartbeat(1, gone);
  CHECK(beat.first_of == 0);
  CHECK(beat.lease.seconds == 0);
  CHECK(f.registry->reach(1) == Reach::kGone);
  CHECK(f.registry->find(1)->state == ServerState::kDown);
  CHECK(f.registry->find(1)->last.trouble == gone.trouble);
  CHECK(f.registry->reach(1) != Reach::kHere);
  CHECK(f.registry->candidates().at(0).state == ServerState::kDown);
  CHECK(f.registry->has_stopped(1));
  CHECK(f.registry->lapse(1));  // whatever is recorded now, it has before it serves again
  f.now += 5s;
  CHECK(f.registry->gone_for(1) == 5s);
  f.registry->caught_up(1, 1);  // of before
  CHECK(f.registry->heartbeat(1, gone).lease.seconds == 0);
  CHECK(f.registry->reach(1) == Reach::kGone);

  beat = f.registry->heartbeat(1, {});
  CHECK(beat.first_of > 1);
  CHECK(beat.lease.seconds == 0);
  CHECK(f.registry->reach(1) == Reach::kGone);  // it may lack fences
  CHECK_FALSE(f.registry->has_stopped(1));      // those it can be sent
  f.registry->caught_up(1, beat.first_of);
  CHECK(f.registry->reach(1) == Reach::kHere);
  CHECK(f.registry->heartbeat(1, {}).lease.seconds == 60);
  CHECK_FALSE(f.registry->lapse(1));
  SECTION("and the connection may break meanwhile") {
    (void)f.registry->heartbeat(1, gone);
    f.registry->disconnected(1);
    f.registry->connected(1);
    CHECK(f.registry->reach(1) == Reach::kGone);
    beat = f.registry->heartbeat(1, {});
    f.registry->caught_up(1, beat.first_of);
    CHECK(f.registry->reach(1) == Reach::kHere);
  }
}

TEST_CASE("draining is durable, and shown while the server is up") {
  Fixture f;
  f.add(1);
  REQUIRE(f.registry->set_duty(1, Duty::kDraining));
  CHECK(f.registry->find(1)->state == ServerState::kDraining);
  CHECK(f.registry->candidates().at(0).state == ServerState::kDraining);
  f.registry = f.open();
  f.add(1);
  CHECK(f.registry->find(1)->record.duty == Duty::kDraining);
  REQUIRE(f.registry->set_duty(1, Duty::kServing));
  CHECK(f.registry->find(1)->state == ServerState::kUp);
  CHECK(f.registry->set_duty(7, Duty::kDraining).error() == Errc::kNotFound);
}

TEST_CASE("a data server that serves again after all is not forgotten") {
  Fixture f;
  f.add(1);
  REQUIRE(f.registry->set_duty(1, Duty::kRemoving));
  REQUIRE(f.registry->set_duty(1, Duty::kServing));  // ds undrain, while it was looked through
  CHECK(f.registry->remove_server(1).error() == Errc::kInvalid);
  CHECK(f.registry->find(1));
}

TEST_CASE("a data server that is removed is unknown, and so is its store") {
  Fixture f;
  f.add(1);
  f.add(2);
  REQUIRE(f.registry->add_fences(std::vector<std::uint32_t>{1},
                                 std::vector<control::Fence>{{.object = {5, 1, 7}, .epoch = 2}}));
  REQUIRE(f.registry->set_duty(1, Duty::kRemoving));
  REQUIRE(f.registry->remove_server(1));
  CHECK_FALSE(f.registry->find(1));
  CHECK(f.registry->list().size() == 1);
  CHECK(f.registry->remove_server(1).error() == Errc::kNotFound);
  CHECK(f.registry->pending_fences(1, 10)->empty());
  f.registry = f.open();
  CHECK(f.registry->list().size() == 1);
  CHECK_FALSE(f.registry->find(1));
}

TEST_CASE("how long a data server has been gone") {
  Fixture f;
  f.add(1);
  CHECK_FALSE(f.registry->gone_for(1));
  f.registry->disconnected(1);
  f.now += 70s;
  CHECK(f.registry->gone_for(1) == 70s);
  f.registry = f.open();
  f.now += 20s;
  CHECK(f.registry->gone_for(1) == 20s);
}

TEST_CASE("what clients moved between two heartbeats is told of candidates") {
  Fixture f;
  f.add(1);
  const auto served = [&](Registry::Clock::duration later, const control::Heartbeat& beat) {
    f.now += later;
    (void)f.registry->heartbeat(1, beat);
    return f.registry->candidates()[0].served;
  };
  control::Heartbeat beat;
  beat.counters.read_bytes = 300;
  beat.mirror.forwarded_bytes = 100;
  beat.counters.write_bytes = 150;
  CHECK(served(2s, beat) == 200);
  beat.counters.write_bytes += 500;
  CHECK(served(10ms, beat) == 200);  // too soon to say
  CHECK(served(1s, beat) == 0);
  beat.counters = {};  // another process
  CHECK(served(1s, beat) == 0);
}

TEST_CASE("candidates carry the last word on space and load") {
  Fixture f;
  f.add(1);
  control::Heartbeat beat;
  beat.load.measured.disk = {1, 2, 3};
  beat.space = {100, 42, 1};
  (void)f.registry->heartbeat(1, beat);
  const auto candidates = f.registry->candidates();
  REQUIRE(candidates.size() == 1);
  CHECK(candidates[0].free_bytes == 42);
  CHECK(candidates[0].capacity_bytes == 100);
  CHECK(candidates[0].load == beat.load.measured);
  const std::uint32_t asked[] = {99, candidates[0].ds_id};
  const auto of_two = f.registry->candidates(asked);
  REQUIRE(of_two.size() == 1);  // of the one that is known
  CHECK(of_two[0].free_bytes == 42);
  CHECK(f.registry->ids() == std::vector{candidates[0].ds_id});
}

TEST_CASE("devices are made once, durably, and anew when an address changes") {
  Fixture f;
  f.add(1);
  f.add(2);
  const std::uint32_t both[] = {1, 2};
  CHECK(f.registry->known_device(both) == nullptr);
  const auto first = f.registry->device_for(both);
  REQUIRE(first);
  CHECK(f.registry->known_device(both) == *first);
  CHECK((*first)->number == 1);
  CHECK(f.registry->device_for(both).value() == *first);

  f.registry = f.open(88);  // the salt stays what it was
  f.add(1);
  f.add(2);
  const auto id = f.registry->device_id(10, 1, **first);
  CHECK(id.salt == 77);
  REQUIRE(f.registry->device(id));
  CHECK(*f.registry->device(id) == **first);
  CHECK(f.registry->device_for(both).value()->number == 1);

  f.add(2, 3000);
  CHECK(f.registry->known_device(both) == nullptr);
  const auto moved = f.registry->device_for(both);
  REQUIRE(moved);
  CHECK((*moved)->number == 2);
  CHECK(f.registry->device(id)->number == 1);  // the old one means what it meant
  auto foreign = id;
  foreign.salt = 1;
  CHECK(f.registry->device(foreign) == nullptr);

  const std::uint32_t unknown[] = {1, 9};
  CHECK(f.registry->device_for(unknown).error() == Errc::kLayoutUnavailable);
  CHECK(f.registry->known_device(unknown) == nullptr);
  CHECK_FALSE(f.registry->device_for({}));
}

TEST_CASE("devices that are not used are forgotten, in memory and in the store") {
  constexpr std::uint64_t kMost = Registry::kUnusedDevices;
  Fixture f;
  const std::uint32_t id = f.add(1);
  f.add(2);
  const std::uint32_t other[] = {2};
  const auto current = f.registry->device_for(other).value()->number;
  const auto make = [&](std::uint64_t number) {
    f.add(1, static_cast<std::uint16_t>(2000 + number));
    CHECK(f.registry->device_for(other).value()->number == current);
    return f.registry->device_for({&id, 1}).value();
  };
  auto granted = make(2);  // a layout names it
  REQUIRE(granted->number == 2);
  for (std::uint64_t number = 3; number <= kMost + 50; ++number) make(number);
  const auto known = [&](std::uint64_t number) {
    return f.registry->device({.fsal = 10, .export_id = 1, .salt = 77, .number = number}) !=
           nullptr;
  };
  const auto check = [&] {
    CHECK(known(current));
    CHECK(known(granted->number));
    for (std::uint64_t number = 3; number <= 50; ++number) CHECK_FALSE(known(number));
    for (std::uint64_t number = 51; number <= kMost + 50; ++number) CHECK(known(number));
  };
  check();
  f.registry = f.open();  // as the store has it
  check();
  f.add(1, static_cast<std::uint16_t>(2000 + kMost + 50));
  CHECK(f.registry->device_for({&id, 1}).value()->number == kMost + 50);
  granted = f.registry->device({.fsal = 10, .export_id = 1, .salt = 77, .number = 2});
  CHECK(make(kMost + 51)->number == kMost + 51);
  CHECK(known(2));
  CHECK_FALSE(known(51));
  granted.reset();
  CHECK(make(kMost + 52)->number == kMost + 52);
  CHECK_FALSE(known(2));
}

TEST_CASE("fences wait for their data server, the greatest epoch wins") {
  Fixture f;
  f.add(1);
  f.add(2);
  const std::uint32_t both[] = {1, 2};
  const control::Fence object{control::Fence::What::kObject, {5, 1, 1}, 0, 3};
  const control::Fence client{control::Fence::What::kClient, {}, 99, 2};
  const control::Fence fences[] = {object, client};
  REQUIRE(f.registry->add_fences(both, fences));
  CHECK(f.registry->pending_fences(1, 10)->size() == 2);

  const control::Fence done[] = {object, client};
  REQUIRE(f.registry->fences_done(1, done));
  CHECK(f.registry->pending_fences(1, 10)->empty());
  CHECK(f.registry->pending_fences(2, 10)->size() == 2);

  auto higher = object;
  higher.epoch = 4;
  const control::Fence next[] = {higher};
  REQUIRE(f.registry->add_fences(both, next));
  REQUIRE(f.registry->add_fences(both, done));  // older: changes nothing for 2
  REQUIRE(f.registry->fences_done(2, done));    // what was sent before the higher one came
  CHECK(f.registry->pending_fences(2, 10).value() == std::vector{higher});

  f.registry = f.open();
  auto registered = f.registry->register_server(kFrom, request(2));
  REQUIRE(registered);
  CHECK(registered->fences == std::vector{higher});
}

TEST_CASE("a data server is told to fence what earlier runs of this server have sent") {
  Fixture f;
  f.registry = f.open(77, 60, control::mds_boot(7, 1234));
  const control::Fence earlier{control::Fence::What::kClient, {}, control::kOwnClientId, 7};
  const auto missing = [&](std::uint64_t boot) {
    auto again = request(1);
    if (boot > 1) again.state = control::next_state(again.state, 1);
    again.boot = boot;
    REQUIRE(f.registry->register_server(kFrom, again));
    return f.registry->missing_fences(1).value();
  };
  CHECK(missing(1) == std::vector{earlier});
  CHECK(missing(1) == std::vector{earlier});

  const std::uint32_t one[] = {1};
  const std::vector<control::Fence> client{{control::Fence::What::kClient, {}, 99, 2}};
  REQUIRE(f.registry->add_fences(one, client));
  CHECK(f.registry->missing_fences(1)->size() == 2);
  REQUIRE(f.registry->fences_done(1, std::vector{client[0], earlier}));
  CHECK(missing(1).empty());
  // The store of another process may have been set back.
  CHECK(missing(2) == std::vector{earlier});
}

TEST_CASE("a registration that cannot be kept is refused") {
  Fixture f;
  f.store.fail_commits(Errc::kIo, 0, 1);
  CHECK(f.registry->register_server(kFrom, request(1)).error() == Errc::kIo);
  CHECK(f.registry->list().empty());
  CHECK(f.add(1) == 1);
}

TEST_CASE("records come back equal, damaged ones are corrupt") {
  ServerRecord record{7, uuid(3), "a", "rack", 4, {kFrom}, Duty::kRemoving};
  const std::string stored = encode(record);
  CHECK(decode_server(stored).value() == record);
  for (std::size_t size = 0; size < stored.size(); ++size) {
    CHECK_FALSE(decode_server(std::string_view(stored).substr(0, size)));
  }
  CHECK(decode_server(stored + '\0').error() == Errc::kCorrupt);
  CHECK(stored[3] == 2);  // as before there was RDMA
  record.rdma = {kFrom};
  std::string both = encode(record);
  CHECK(both[3] == 3);
  CHECK(decode_server(both).value() == record);
  for (std::size_t size = 0; size < both.size(); ++size) {
    CHECK_FALSE(decode_server(std::string_view(both).substr(0, size)));
  }
  both[3] = 4;  // with networks, of which there are none
  CHECK(decode_server(both).error() == Errc::kCorrupt);
  record.networks = {{.name = "n", .addresses = {kFrom}, .clients = {{.start = {}, .bits = 0}}}};
  for (const bool rdma : {true, false}) {
    if (!rdma) record.rdma.clear();
    std::string all = encode(record);
    CHECK(all[3] == 4);
    CHECK(decode_server(all).value() == record);
    for (std::size_t size = 0; size < all.size(); ++size) {
      CHECK_FALSE(decode_server(std::string_view(all).substr(0, size)));
    }
    all[3] = 5;
    CHECK(decode_server(all).error() == Errc::kNotSupported);
  }
  CHECK_FALSE(decode_fence("x"));
  CHECK_FALSE(decode_u32("x"));
}

TEST_CASE("what the registry keeps is of its form, and nothing else is") {
  Fixture f;
  const std::uint32_t id = f.add(1);
  control::Fence client;
  client.what = control::Fence::What::kClient;
  client.client_id = 5;
  client.epoch = 2;
  control::Fence object;
  object.object = {1, 2, 3};
  object.epoch = 2;
  REQUIRE(f.registry->add_fences(std::vector{id}, std::vector{client, object}));
  std::set<std::string> kinds;
  std::map<std::string, std::string> kept;
  REQUIRE(f.store.latest().scan("S", "X", SIZE_MAX, [&](auto key, auto value) {
    kinds.insert(std::string(key.substr(0, key.starts_with('W') ? 2 : 1)));
    kept.emplace(key, value);
    return true;
  }));
  CHECK(kinds.contains("S"));
  CHECK(kinds.contains("Wf"));
  for (const auto& [key, value] : kept) {
    CAPTURE(key);
    CHECK(check_record(key, value));
    CHECK_FALSE(check_record(key, value.substr(0, value.size() - 1)));
    CHECK_FALSE(check_record(key, value + '\0'));
    CHECK_FALSE(check_record(key + '\0', value));
    if (key.size() > 2) CHECK_FALSE(check_record(key.substr(0, key.size() - 1) + '\xff', value));
  }
  CHECK_FALSE(check_record("Wx", kept.at(cluster_keys::next_server())));
  CHECK_FALSE(check_record("W", ""));
  CHECK_FALSE(check_record("", ""));
}

TEST_CASE("how a parity group is comes from what was told, or else from a heartbeat's words") {
  Fixture f;
  const std::uint32_t id = f.add(1);
  const auto state = [&] { return f.registry->find(id)->group.state; };
  CHECK(state() == control::GroupState::kNone);
  control::Heartbeat beat;
  beat.store = "parity, degraded";
  (void)f.registry->heartbeat(id, beat);
  CHECK(state() == control::GroupState::kDegraded);
  f.registry->told(id, control::TellGroup{control::GroupState::kRebuilding, 20});
  CHECK(state() == control::GroupState::kRebuilding);
  (void)f.registry->heartbeat(id, beat);
  CHECK(state() == control::GroupState::kRebuilding);
  f.registry->disconnected(id);
  CHECK(state() == control::GroupState::kNone);
  f.registry->told(id, control::TellGroup{control::GroupState::kWhole, 0});  // late
  f.registry->connected(id);
  CHECK(state() == control::GroupState::kDegraded);
}
