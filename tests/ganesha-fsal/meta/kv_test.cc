// The contract of kv.h, over both engines.
#include "ganesha-fsal/meta/kv/kv.h"

#include <catch2/generators/catch_generators.hpp>
#include <thread>

#include "tests/ganesha-fsal/meta/meta_fixture.h"

using namespace weft;
using namespace weft::mds;

namespace {

using Value = std::optional<std::string>;

void put(KvStore& store, std::string_view key, std::string_view value) {
  REQUIRE(store.run([&](Transaction& transaction) -> Result<> {
    transaction.put(key, value);
    return {};
  }));
}

Value value_of(const KvReader& reader, std::string_view key) {
  auto value = reader.peek(key);
  REQUIRE(value);
  return *value;
}

std::string keys_in(const KvReader& reader, std::string_view begin, std::string_view end,
                    std::size_t limit = SIZE_MAX) {
  std::string out;
  REQUIRE(reader.scan(begin, end, limit, [&](std::string_view key, std::string_view value) {
    out.append(key).append("=").append(value).append(" ");
    return true;
  }));
  return out;
}

Engine any_engine() { return GENERATE(Engine::kMemory, Engine::kRocks); }

}  // namespace

TEST_CASE("what is put is there, what is erased is gone") {
  AnyStore store(any_engine());
  CHECK(value_of(store->latest(), "a") == std::nullopt);
  put(*store, "a", "1");
  CHECK(value_of(store->latest(), "a") == "1");
  put(*store, "a", "");
  CHECK(value_of(store->latest(), "a") == "");
  REQUIRE(store->run([](Transaction& transaction) -> Result<> {
    transaction.erase("a");
    return {};
  }));
  CHECK(value_of(store->latest(), "a") == std::nullopt);
}

TEST_CASE("a transaction sees its own writes, and nobody else does before commit") {
  AnyStore store(any_engine());
  put(*store, "a", "1");
  put(*store, "c", "3");
  auto transaction = store->begin();
  transaction->put("b", "2");
  transaction->erase("c");
  CHECK(value_of(*transaction, "b") == "2");
  CHECK(keys_in(*transaction, "a", "z") == "a=1 b=2 ");
  CHECK(keys_in(store->latest(), "a", "z") == "a=1 c=3 ");
  REQUIRE(transaction->commit());
  CHECK(keys_in(store->latest(), "a", "z") == "a=1 b=2 ");
}

TEST_CASE("a scan keeps to its range, its limit and its visitor") {
  AnyStore store(any_engine());
  for (const char* key : {"a", "b", "c", "d"}) put(*store, key, "");
  CHECK(keys_in(store->latest(), "b", "d") == "b= c= ");
  CHECK(keys_in(store->latest(), "a", "z", 2) == "a= b= ");
  CHECK(keys_in(store->latest(), "x", "z").empty());
  int seen = 0;
  REQUIRE(store->latest().scan("a", "z", 10, [&](auto, auto) { return ++seen < 3; }));
  CHECK(seen == 3);
}

TEST_CASE("several values are read in the order that was asked for") {
  AnyStore store(any_engine());
  put(*store, "a", "1");
  put(*store, "b", "");
  put(*store, "d", "4");
  const auto before = store->snapshot();
  put(*store, "a", "2");
  const std::vector<std::string> wanted = {"d", "c", "a", "b", "a"};
  using Values = KvReader::Values;
  CHECK(*store->latest().peek_all(wanted) == Values{"4", std::nullopt, "2", "", "2"});
  CHECK(*before->peek_all(wanted) == Values{"4", std::nullopt, "1", "", "1"});
  CHECK(store->latest().peek_all({})->empty());
}

TEST_CASE("reading what another changes before commit is a conflict") {
  AnyStore store(any_engine());
  put(*store, "a", "1");
  SECTION("a value") {
    auto transaction = store->begin();
    REQUIRE(transaction->get("a"));
    put(*store, "a", "2");
    transaction->put("b", "1");
    CHECK(transaction->commit().error() == Errc::kConflict);
    CHECK(value_of(store->latest(), "b") == std::nullopt);
  }
  SECTION("an absence") {
    auto transaction = store->begin();
    REQUIRE(transaction->get("b"));
    put(*store, "b", "2");
    transaction->put("c", "1");
    CHECK(transaction->commit().error() == Errc::kConflict);
  }
  SECTION("an erasure") {
    auto transaction = store->begin();
    REQUIRE(transaction->get("a"));
    REQUIRE(store->run([](Transaction& other) -> Result<> {
      other.erase("a");
      return {};
    }));
    transaction->put("b", "1");
    CHECK(transaction->commit().error() == Errc::kConflict);
  }
  SECTION("but not what it peeked at, or what nobody changed") {
    auto transaction = store->begin();
    REQUIRE(transaction->peek("a"));
    REQUIRE(transaction->get("x"));
    put(*store, "a", "2");
    transaction->put("b", "1");
    CHECK(transaction->commit());
  }
}

TEST_CASE("a transaction reads back what it has written, also where it scans") {
  AnyStore store(any_engine());
  for (const char* key : {"a", "b", "c"}) put(*store, key, "old");
  auto transaction = store->begin();
  transaction->put("b", "1");
  transaction->put("b", "2");
  transaction->erase("c");
  transaction->put("c", "3");
  transaction->put("d", "4");
  transaction->erase("d");
  CHECK(*transaction->get("b") == "2");
  CHECK(*transaction->get("c") == "3");
  CHECK(*transaction->get("d") == std::nullopt);
  CHECK(keys_in(*transaction, "a", "z") == "a=old b=2 c=3 ");
  // Its own writes are no conflict, and what it wrote without reading it is none either.
  put(*store, "b", "another's");
  REQUIRE(transaction->commit());
  CHECK(keys_in(store->latest(), "a", "z") == "a=old b=2 c=3 ");
}

TEST_CASE("reading and no writing is a conflict, too") {
  AnyStore store(any_engine());
  auto transaction = store->begin();
  REQUIRE(transaction->get("a"));
  put(*store, "a", "1");
  CHECK(transaction->commit().error() == Errc::kConflict);
}

TEST_CASE("increments from many threads are all there") {
  AnyStore store(any_engine());
  constexpr int kThreads = 4;
  constexpr int kEach = 100;
  std::atomic<int> failed = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        for (int n = 0; n < kEach; ++n) {
          auto done = store->run([](Transaction& transaction) -> Result<> {
            auto value = transaction.get("n");
            if (!value) return pass(value);
            transaction.put("n", std::to_string(std::stoi(value->value_or("0")) + 1));
            return {};
          });
          if (!done) ++failed;
        }
      });
    }
  }
  CHECK(failed == 0);
  CHECK(value_of(store->latest(), "n") == std::to_string(kThreads * kEach));
}

TEST_CASE("a snapshot stays as it was") {
  AnyStore store(any_engine());
  put(*store, "a", "1");
  {
    const auto snapshot = store->snapshot();
    put(*store, "a", "2");
    put(*store, "b", "1");
    CHECK(keys_in(*snapshot, "a", "z") == "a=1 ");
  }
  CHECK(keys_in(store->latest(), "a", "z") == "a=2 b=1 ");
}

TEST_CASE("a body's error commits nothing") {
  AnyStore store(any_engine());
  auto done = store->run([](Transaction& transaction) -> Result<> {
    transaction.put("a", "1");
    return fail(Errc::kExists);
  });
  CHECK(done.error() == Errc::kExists);
  CHECK(value_of(store->latest(), "a") == std::nullopt);
}

TEST_CASE("a conflict is tried again") {
  AnyStore store(any_engine());
  int runs = 0;
  REQUIRE(store->run([&](Transaction& transaction) -> Result<> {
    auto value = transaction.get("a");
    if (!value) return pass(value);
    if (++runs == 1) put(*store, "a", "1");
    transaction.put("b", "1");
    return {};
  }));
  CHECK(runs == 2);
}
