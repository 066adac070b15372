// Which stores a registry accepts, over the crashes of both sides.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "ganesha-fsal/cluster/registry.h"
#include "tests/ganesha-fsal/meta/memory_kv.h"

using namespace weft;
using namespace weft::mds;
using namespace std::chrono_literals;

namespace {

control::Uuid uuid(std::uint8_t value) {
  control::Uuid id;
  id.fill(std::byte{value});
  return id;
}

const layout::NetAddress kFrom = layout::make_address("192.0.2.9", 55555).value();
constexpr std::uint16_t kPort = 2049;

// A folder with a store, which can be copied.
struct StoreFolder {
  control::Uuid uuid{};
  control::Uuid cluster{};
  std::uint32_t ds_id = 0;
  control::StoreState state;
};

// A data server's process over a folder.
struct Process {
  StoreFolder& folder;
  std::uint64_t boot = 0;
  std::uint16_t port = kPort;

  control::Register request() const {
    control::Register request;
    request.store = folder.uuid;
    request.cluster = folder.cluster;
    request.ds_id = folder.ds_id;
    request.boot = boot;
    request.name = "ds";
    request.addresses = {layout::make_address("192.0.2.1", port).value()};
    request.state = folder.state;
    return request;
  }
  void note(const control::Registered& answer) {
    folder.cluster = answer.cluster;
    folder.ds_id = answer.ds_id;
    folder.state = control::next_state(folder.state, boot);
  }
};

struct StoresTest {
  MemoryKv store;
  Registry::Clock::time_point now{1h};
  std::unique_ptr<Registry> registry = open();
  StoreFolder folder{.uuid = uuid(1), .cluster = {}, .ds_id = 0, .state = {}};
  std::uint64_t boots = 100;

  std::unique_ptr<Registry> open() {
    RegistryOptions options;
    options.cluster = uuid(200);
    options.now = [this] { return now; };
    return std::move(*Registry::open(store, options));
  }
  Process start(StoreFolder& of, std::uint16_t port = kPort) { return {of, ++boots, port}; }
  Result<control::Registered> ask(const Process& process) {
    return registry->register_server(kFrom, process.request());
  }
  // Registers, notes it, and beats: all of it.
  Result<> join(Process& process) {
    auto answer = ask(process);
    if (!answer) return pass(answer);
    process.note(*answer);
    registry->connected(answer->ds_id);
    (void)registry->heartbeat(answer->ds_id, {});
    return registry->confirm(answer->ds_id, process.folder.state);
  }
  void gone(std::uint32_t ds_id = 1) {
    registry->disconnected(ds_id);
    now += 2s;
  }
};

}  // namespace

TEST_CASE("a store goes through its states, one for each run that was accepted") {
  StoresTest t;
  for (std::uint64_t run = 1; run <= 4; ++run) {
    auto process = t.start(t.folder);
    REQUIRE(t.join(process));
    CHECK(t.folder.state == control::StoreState{run, process.boot});
    t.gone();
    REQUIRE(t.join(process));  // connected again: the same process, the same state
    CHECK(t.folder.state.generation == run);
    t.gone();
    t.registry = t.open();  // as does a metadata server that was started anew
    REQUIRE(t.join(process));
    t.gone();
  }
}

TEST_CASE("a data server that dies at any point of a registration is accepted again") {
  StoresTest t;
  auto first = t.start(t.folder);
  SECTION("the first of all") {}
  SECTION("a later one") {
    REQUIRE(t.join(first));
    t.gone();
  }
  // Before it was answered; the metadata server may have died then, too.
  for (int crash = 0; crash < 3; ++crash) {
    auto dies = t.start(t.folder);
    REQUIRE(t.ask(dies));
    t.now += 3s;  // until then the next one asks in vain
    if (crash == 1) t.registry = t.open();
  }
  // After it has noted the state, before it beat.
  auto dies = t.start(t.folder);
  dies.note(t.ask(dies).value());
  auto again = t.start(t.folder);
  again.note(t.ask(again).value());
  // After the heartbeat, before that was kept.
  t.registry->connected(1);
  (void)t.registry->heartbeat(1, {});
  t.store.fail_commits(Errc::kIo, 0, 1);
  CHECK(t.registry->confirm(1, t.folder.state).error() == Errc::kIo);
  t.gone();
  auto last = t.start(t.folder);
  REQUIRE(t.join(last));
}

TEST_CASE("what an earlier run sent before it died does not take the place of the next one") {
  StoresTest t;
  auto first = t.start(t.folder);
  REQUIRE(t.join(first));
  t.registry = t.open();
  const bool accepted = GENERATE(true, false);
  const auto buffered = accepted ? first.request() : t.start(t.folder).request();
  auto next = t.start(t.folder);
  next.note(t.ask(next).value());
  CHECK(t.registry->register_server(kFrom, buffered).error() == Errc::kBusy);
  SECTION("the next run goes on") {
    t.registry->connected(1);
    (void)t.registry->heartbeat(1, {});
    CHECK(t.registry->confirm(1, t.folder.state));
    t.gone();
    CHECK(t.join(next));
  }
  SECTION("the next run was a copy's, and is not heard of any more") {
    t.now += 10min;
    CHECK(t.registry->register_server(kFrom, buffered));
  }
  CHECK(t.registry->foreign().empty());
}

TEST_CASE("a store that was rolled back is refused, however often it is started") {
  StoresTest t;
  auto first = t.start(t.folder);
  REQUIRE(t.join(first));
  t.gone();
  StoreFolder old = t.folder;
  auto second = t.start(t.folder);
  REQUIRE(t.join(second));
  t.gone();
  if (GENERATE(false, true)) t.registry = t.open();
  for (int start = 0; start < 5; ++start) {
    auto process = t.start(old);
    const auto refused = t.ask(process);
    REQUIRE_FALSE(refused);
    CHECK(refused.error() == Errc::kStale);
    CHECK(refused.error().text.contains("generation 1, 2 was accepted last"));
  }
  CHECK(t.registry->find(1)->refused.contains("rolled back"));
  // From before it was registered at all.
  StoreFolder oldest{.uuid = uuid(1), .cluster = {}, .ds_id = 0, .state = {}};
  auto process = t.start(oldest);
  CHECK(t.ask(process).error() == Errc::kStale);
  // The true one is accepted as ever.
  auto third = t.start(t.folder);
  REQUIRE(t.join(third));
  CHECK(t.registry->find(1)->refused.empty());
  CHECK(t.registry->foreign().empty());
}

TEST_CASE("of two copies of a store the one that came first is the store") {
  StoresTest t;
  auto first = t.start(t.folder);
  REQUIRE(t.join(first));
  t.gone();
  StoreFolder clone = t.folder;
  auto copy = t.start(clone, 3000);
  t.now += 10min;  // no lease is left
  REQUIRE(t.join(copy));
  auto original = t.start(t.folder);
  SECTION("while the first is alive") {
    const auto refused = t.ask(original);
    CHECK(refused.error() == Errc::kBusy);
    CHECK(refused.error().text.contains("192.0.2.1:3000"));
    CHECK(t.registry->foreign().empty());  // nothing of the living one is to be marked
    CHECK(t.registry->find(1)->refused.contains("alive"));
  }
  SECTION("after the first") {
    t.gone();
    t.now += 10min;
    const auto refused = t.ask(original);
    CHECK(refused.error() == Errc::kStale);
    REQUIRE(t.registry->foreign().size() == 1);
    CHECK(t.registry->foreign().front().state == t.folder.state);
  }
}

TEST_CASE("a second process is refused while the first is heard, and the first is not disturbed") {
  StoresTest t;
  auto first = t.start(t.folder);
  REQUIRE(t.join(first));
  auto second = t.start(t.folder);
  t.now += 1s;
  CHECK(t.ask(second).error() == Errc::kBusy);
  // The same process with a new connection is not a second one.
  REQUIRE(t.ask(first));
  // Silent for longer than a heartbeat takes: it is dead, or cut off; the address is the same.
  t.now += 3s;
  CHECK(t.ask(second));
}

TEST_CASE("a process that was found not to answer is in nobody's way") {
  StoresTest t;
  auto first = t.start(t.folder);
  REQUIRE(t.join(first));
  auto second = t.start(t.folder);
  const auto rival = t.registry->rival(kFrom, second.request());
  REQUIRE(rival);
  CHECK(rival->alive);
  CHECK(t.registry->register_server(kFrom, second.request(), rival->connection));
  // Not one that has come since.
  t.registry->connected(1);
  (void)t.registry->heartbeat(1, {});
  auto third = t.start(t.folder);
  CHECK(t.registry->register_server(kFrom, third.request(), rival->connection).error() ==
        Errc::kBusy);
}

TEST_CASE("elsewhere a store is accepted when nobody has a lease with it any more") {
  StoresTest t;
  auto first = t.start(t.folder);
  REQUIRE(t.join(first));
  t.registry->caught_up(1, t.registry->heartbeat(1, {}).first_of);
  t.gone();
  StoreFolder clone = t.folder;
  auto moved = t.start(clone, 3000);
  const auto waits = t.ask(moved);
  CHECK(waits.error() == Errc::kBusy);
  CHECK(waits.error().text.contains("may still serve"));
  SECTION("found dead") {
    const auto rival = t.registry->rival(kFrom, moved.request());
    REQUIRE(rival);
    CHECK_FALSE(rival->alive);
    REQUIRE(t.registry->found_dead(1, rival->connection));
    CHECK(t.ask(moved));
  }
  SECTION("the lease has ended") {
    t.now += 66s;
    CHECK(t.ask(moved));
  }
  SECTION("the metadata server does not know how long it is") {
    t.registry = t.open();
    CHECK(t.ask(moved).error() == Errc::kBusy);
    t.now += 66s;
    CHECK(t.ask(moved));
  }
}

TEST_CASE("a foreign store is accepted once it is admitted, and only in that state") {
  StoresTest t;
  auto first = t.start(t.folder);
  REQUIRE(t.join(first));
  t.gone();
  StoreFolder old = t.folder;
  for (int run = 0; run < 2; ++run) {
    auto process = t.start(t.folder);
    REQUIRE(t.join(process));
    t.gone();
  }
  auto process = t.start(old);
  CHECK(t.ask(process).error().text.contains("are being marked stale"));
  t.registry->explain(1, "in a moment");
  CHECK(t.ask(process).error().text.contains("in a moment"));
  REQUIRE(t.registry->take_as_is(1));
  CHECK(t.registry->foreign().front().as_is);
  CHECK(t.ask(process).error() == Errc::kStale);
  REQUIRE(t.registry->admit(1, old.state));
  CHECK(t.registry->foreign().empty());
  if (GENERATE(false, true)) t.registry = t.open();
  StoreFolder other = old;
  other.state.boot ^= 1;
  auto stranger = t.start(other);
  CHECK(t.ask(stranger).error() == Errc::kStale);
  other.state = {t.folder.state.generation, 7};
  CHECK(t.ask(stranger).error().text.contains("served in its place"));
  ++other.state.generation;
  CHECK(t.ask(stranger).error().text.contains("than the metadata store"));
  auto dies = t.start(old);
  REQUIRE(t.ask(dies));
  t.now += 3s;  // until then another one asks in vain
  auto stays = t.start(old);
  REQUIRE(t.join(stays));
  t.gone();
  auto newer = t.start(t.folder);
  CHECK(t.ask(newer).error() == Errc::kStale);  // it is the store now
  CHECK(t.registry->take_as_is(2).error() == Errc::kInvalid);
}

TEST_CASE("a store and a record from before there were states are accepted once") {
  StoresTest t;
  auto first = t.start(t.folder);
  REQUIRE(t.join(first));
  t.gone();
  ServerRecord record = t.registry->find(1)->record;
  record.history.reset();
  REQUIRE(t.store.run([&](Transaction& tx) -> Result<> {
    tx.put(cluster_keys::server(1), encode(record));
    return {};
  }));
  t.registry = t.open();
  StoreFolder old = t.folder;
  old.state = {};
  auto process = t.start(old);
  REQUIRE(t.join(process));
  t.gone();
  StoreFolder again = t.folder;
  again.state = {};
  auto late = t.start(again);
  CHECK(t.ask(late).error() == Errc::kStale);
}
