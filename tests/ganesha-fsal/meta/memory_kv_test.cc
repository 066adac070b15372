#include "tests/ganesha-fsal/meta/memory_kv.h"

#include "tests/ganesha-fsal/meta/meta_fixture.h"

using namespace weft;
using namespace weft::mds;

namespace {

Result<CommitSeq> put(MemoryKv& store, std::string_view key) {
  return store.apply([&](Transaction& transaction) -> Result<> {
    transaction.put(key, "1");
    return {};
  });
}

bool has(MemoryKv& store, std::string_view key) { return store.latest().peek(key)->has_value(); }

}  // namespace

TEST_CASE("lost power takes a suffix of what was not synced, and nothing that was") {
  bool all_kept = false;
  bool some_lost = false;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    MemoryKv store(seed);
    auto synced = put(store, "a");
    REQUIRE(synced);
    REQUIRE(store.wait_durable(*synced));
    REQUIRE(put(store, "b"));
    REQUIRE(put(store, "c"));
    store.lose_power();
    CHECK(has(store, "a"));
    CHECK((has(store, "b") || !has(store, "c")));
    (has(store, "c") ? all_kept : some_lost) = true;
  }
  CHECK(all_kept);
  CHECK(some_lost);
}

TEST_CASE("a commit told to fail changes nothing") {
  MemoryKv store;
  store.fail_commits(Errc::kNoSpace, 1, 1);
  CHECK(put(store, "a"));
  CHECK(put(store, "b").error() == Errc::kNoSpace);
  CHECK(put(store, "c"));
  CHECK_FALSE(has(store, "b"));
}

TEST_CASE("after a failed sync the store refuses everything until it is opened again") {
  MemoryKv store;
  store.fail_sync(Errc::kIo);
  auto seq = put(store, "a");
  REQUIRE(seq);
  CHECK(store.wait_durable(*seq).error() == Errc::kIo);
  CHECK(put(store, "b").error() == Errc::kIo);
  store.lose_power();
  CHECK(put(store, "b"));
}

TEST_CASE("a transaction from before the crash does not commit") {
  MemoryKv store;
  auto transaction = store.begin();
  transaction->put("a", "1");
  store.lose_power();
  CHECK(transaction->commit().error() == Errc::kClosed);
}
