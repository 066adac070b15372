// Random operations through a cache over a store that carries them out in any order, fails them
// with all, half or none of it done, or later, and loses what is not stable: what the cache answers
// is what the store has at that moment.
#include <rapidcheck.h>

#include <catch2/catch_test_macros.hpp>
#include <optional>

#include "dataserver/store/cached_store.h"
#include "rpc/base/clock.h"
#include "tests/dataserver/store/held_store.h"

namespace weft::ds {
namespace {

constexpr std::uint64_t kBlock = BlockCache::kBlock;
constexpr std::uint64_t kBlocks = 4;

struct Rig {
  explicit Rig(std::uint64_t seed) : random(seed) { store.hold = true; }
  ~Rig() {
    store.finish_all();
    while (store.late() > 0) store.carry_out_late();
  }
  [[nodiscard]] bool one_in(std::uint64_t n) { return random.below(n) == 0; }
  template <class T>
  [[nodiscard]] T any_of(std::initializer_list<T> choices) {
    return choices.begin()[random.below(choices.size())];
  }
  [[nodiscard]] layout::ObjectId object() {
    return {.fileid = one_in(4) ? 2U : 1U, .generation = 1};
  }
  [[nodiscard]] std::uint64_t offset() {
    return random.below(kBlocks) * kBlock + any_of<std::uint64_t>({0, 0, 0, 1, 4096, kBlock - 1});
  }
  [[nodiscard]] std::uint64_t size() {
    return any_of<std::uint64_t>({1, 100, 4096, kBlock, kBlock + 1, 3 * kBlock});
  }

  SeededRandom random;
  test::HeldStore store;
  std::unique_ptr<BlockCache> cache = BlockCache::create(BlockCache::kLeast).value();
  CachedStore cached{store, *cache};
  BufferPool pool{std::size_t{16} << 20};
  std::uint64_t hits = 0;
  std::uint64_t movers = 0;  // changes under way: where an object ends is not asked for then
};

void check_hit(const Rig& rig, const layout::ObjectId& object, std::uint64_t offset,
               std::uint64_t count, const ReadResult& result) {
  const auto found = rig.store.files.find(object);
  RC_ASSERT(found != rig.store.files.end());
  const std::string& now = found->second.now;
  RC_ASSERT(result.object_end <= now.size());
  if (rig.movers == 0) RC_ASSERT(result.object_end == now.size());
  const auto bytes = result.payload.flatten().value();
  const std::uint64_t expected =
      offset >= result.object_end ? 0 : std::min(count, result.object_end - offset);
  RC_ASSERT(bytes.size() == expected);
  const std::string got(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  RC_ASSERT(got == (offset < now.size() ? now.substr(offset, expected) : std::string()));
}

void read(Rig& rig) {
  const auto object = rig.object();
  const auto offset = rig.offset();
  const auto count = static_cast<std::uint32_t>(rig.size());
  const std::uint64_t before = rig.store.reads;
  auto got = std::make_shared<std::optional<Result<ReadResult>>>();
  rig.cached.read(object, offset, count, [got](Result<ReadResult> r) { *got = std::move(r); });
  const bool hit = rig.store.reads == before;
  RC_ASSERT(hit == got->has_value());
  if (!hit) return;
  ++rig.hits;
  RC_ASSERT((*got)->has_value());
  check_hit(rig, object, offset, count, ***got);
}

void write(Rig& rig) {
  const auto size = rig.size();
  auto buffer = rig.pool.allocate(size).value();
  std::ranges::fill(buffer.span(), static_cast<std::byte>(1 + rig.random.below(255)));
  std::vector<Buffer> data;
  if (rig.one_in(2)) {
    data.push_back(std::move(buffer));
  } else {
    data.push_back(buffer.share(0, size / 2).value());
    data.push_back(buffer.share(size / 2, size - size / 2).value());
  }
  const auto wanted =
      rig.any_of({Stability::kUnstable, Stability::kUnstable, Stability::kFileSync});
  ++rig.movers;
  rig.cached.write(rig.object(), rig.offset(), std::move(data), wanted,
                   [&rig](const Result<WriteResult>&) { --rig.movers; });
}

void change_otherwise(Rig& rig) {
  const auto object = rig.object();
  ++rig.movers;
  switch (rig.random.below(5)) {
    case 0:
      return rig.cached.truncate(object, rig.offset(),
                                 [&rig](const Result<ObjectStat>&) { --rig.movers; });
    case 1: return rig.cached.remove(object, [&rig](const Result<>&) { --rig.movers; });
    case 2:
      return rig.cached.allocate(object, rig.offset(), rig.size(),
                                 [&rig](const Result<>&) { --rig.movers; });
    case 3:
      return rig.cached.commit(object, [&rig](const Result<WriteVerifier>&) { --rig.movers; });
    default:
      return rig.cached.punch(object, rig.offset(), rig.size(),
                              [&rig](const Result<>&) { --rig.movers; });
  }
}

void go_on(Rig& rig) {
  if (rig.store.held() == 0) return;
  const auto which = static_cast<std::size_t>(rig.random.below(rig.store.held()));
  switch (rig.random.below(50)) {
    case 0: return rig.store.refuse(which, false);
    case 1: return rig.store.refuse(which, true);
    case 2: return rig.store.refuse_early(which);
    default: break;
  }
  if (rig.store.carried_out(which)) {
    rig.store.answer(which);
  } else {
    rig.store.carry_out(which);
  }
}

void step(Rig& rig) {
  switch (rig.random.below(100)) {
    case 0: return rig.store.lose_unstable();
    case 1:
    case 2:
    case 3:
    case 4:
      if (rig.store.late() > 0) rig.store.carry_out_late();
      return;
    case 5: return change_otherwise(rig);
    case 6:
    case 7:
    case 8:
    case 9:
    case 10: return write(rig);
    default: break;
  }
  if (rig.store.held() > 6 || !rig.one_in(3)) return go_on(rig);
  read(rig);
}

TEST_CASE("a cache answers what the store beneath has, whatever goes on") {
  std::uint64_t hits = 0;
  CHECK(rc::check("a cache answers what the store beneath has", [&] {
    Rig rig(*rc::gen::arbitrary<std::uint64_t>());
    const int steps = *rc::gen::inRange(1, 5000);
    for (int i = 0; i < steps; ++i) step(rig);
    hits += rig.hits;
  }));
  CHECK(hits > 10'000);
}

}  // namespace
}  // namespace weft::ds
