#include "dataserver/store/cached_store.h"

#include <catch2/catch_test_macros.hpp>
#include <optional>
#include <thread>

#include "rpc/base/clock.h"
#include "tests/dataserver/store/held_store.h"
#include "tests/dataserver/store/store_model.h"

namespace weft::ds {
namespace {

constexpr std::uint64_t kBlock = BlockCache::kBlock;
const layout::ObjectId kObject{.fileid = 7, .generation = 1};

struct Rig : test::StoreCalls {
  explicit Rig(std::size_t bytes = BlockCache::kLeast)
      : cache(BlockCache::create(bytes).value()),
        cached(std::make_unique<CachedStore>(store, *cache)) {}
  Store& any() override { return *cached; }
  [[nodiscard]] const CacheView& view() const { return cache->view(); }
  // Begins one, to be answered when the store beneath is told to.
  std::shared_ptr<std::optional<std::string>> begin_read(std::uint64_t offset,
                                                         std::uint32_t count) {
    auto text = std::make_shared<std::optional<std::string>>();
    cached->read(kObject, offset, count, [text](Result<ReadResult> result) {
      if (!result) return text->emplace("error: " + result.error().describe()), void();
      const auto bytes = result->payload.flatten().value();
      text->emplace(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    });
    return text;
  }
  void begin_write(std::uint64_t offset, std::string_view bytes) {
    std::vector<Buffer> data;
    data.push_back(buffer(bytes));
    cached->write(kObject, offset, std::move(data), Stability::kUnstable,
                  [](const Result<WriteResult>&) {});
  }
  // How often the store beneath is read for this.
  std::uint64_t reads_for(std::uint64_t offset, std::uint32_t count, const std::string& expected) {
    const std::uint64_t before = store.reads;
    CHECK(text(kObject, offset, count) == expected);
    return store.reads - before;
  }

  test::HeldStore store;
  std::unique_ptr<BlockCache> cache;
  std::unique_ptr<CachedStore> cached;
};

std::string letters(std::size_t size) {
  std::string text(size, 'a');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + i / 1000 % 26);
  return text;
}

TEST_CASE("a cached store is a store like another") {
  Rig rig;
  CHECK(test::behaves_like_strings(rig));
  // The model seldom reads twice what nothing has changed.
  CHECK(rc::check("what is read again is as it was", [&] {
    test::Model model;
    for (std::uint64_t id = 1; id < 4; ++id) {
      RC_ASSERT(rig.remove({.fileid = id, .generation = 1}).has_value());
    }
    const int steps = *rc::gen::inRange(1, 20);
    for (int i = 0; i < steps; ++i) {
      test::step(rig, model);
      for (const auto& [id, expected] : model.objects) {
        RC_ASSERT(rig.text({.fileid = id, .generation = 1}, 0, 1 << 20) == expected);
        RC_ASSERT(rig.text({.fileid = id, .generation = 1}, 0, 1 << 20) == expected);
      }
    }
  }));
  CHECK(rig.view().hits.load() > 0);
  CHECK(rig.view().blocks.load() <= rig.view().capacity_blocks);
}

TEST_CASE("what was read is read again from memory, parts of it too") {
  Rig rig;
  const auto bytes = letters(100'000);
  REQUIRE(rig.write(kObject, 0, bytes).has_value());
  CHECK(rig.reads_for(0, 100'000, bytes) == 1);
  CHECK(rig.reads_for(0, 100'000, bytes) == 0);
  CHECK(rig.reads_for(33'333, 4000, bytes.substr(33'333, 4000)) == 0);
  CHECK(rig.reads_for(99'990, 4000, bytes.substr(99'990)) == 0);
  CHECK(rig.reads_for(100'000, 10, "") == 0);
  CHECK(rig.view().hits.load() == 4);
  CHECK(rig.view().hit_bytes.load() == 100'000 + 4000 + 10);
  // A small read brings its block.
  REQUIRE(rig.remove(kObject).has_value());
  REQUIRE(rig.write(kObject, 0, bytes).has_value());
  CHECK(rig.reads_for(20'000, 100, bytes.substr(20'000, 100)) == 1);
  CHECK(rig.reads_for(kBlock, kBlock, bytes.substr(kBlock, kBlock)) == 0);
  CHECK(rig.reads_for(0, 100, bytes.substr(0, 100)) == 1);
}

TEST_CASE("what is found is not copied, and counts until nobody has it") {
  Rig rig;
  REQUIRE(rig.write(kObject, 0, letters(kBlock)).has_value());
  REQUIRE(rig.read(kObject, 0, kBlock).has_value());
  auto first = rig.read(kObject, 0, kBlock).value();
  auto second = rig.read(kObject, 0, kBlock).value();
  const auto data = [](const ReadResult& result) {
    return std::get<Buffer>(result.payload.pieces().front()).data();
  };
  CHECK(data(first) == data(second));
  // A write does not change what somebody still has.
  REQUIRE(rig.write(kObject, 0, "new").has_value());
  CHECK(first.payload.flatten().value()[0] == std::byte{'a'});
  CHECK(rig.reads_for(0, 3, "new") == 1);
}

TEST_CASE("memory is bounded though all of it is in others' hands") {
  Rig rig;
  const std::uint64_t capacity = rig.view().capacity_blocks;
  CHECK(capacity == BlockCache::kLeast / (kBlock + BlockCache::kBookkeeping));
  REQUIRE(rig.write(kObject, 0, letters(4 * capacity * kBlock)).has_value());
  std::vector<ReadResult> hands;
  for (std::uint64_t i = 0; i < capacity; ++i) {
    REQUIRE(rig.read(kObject, i * kBlock, kBlock).has_value());
    hands.push_back(rig.read(kObject, i * kBlock, kBlock).value());
  }
  CHECK(rig.view().blocks.load() == capacity);
  const auto bytes = letters(4 * capacity * kBlock);
  for (std::uint64_t i = capacity; i < 4 * capacity; ++i) {
    CHECK(rig.reads_for(i * kBlock, kBlock, bytes.substr(i * kBlock, kBlock)) == 1);
    CHECK(rig.reads_for(i * kBlock, kBlock, bytes.substr(i * kBlock, kBlock)) == 1);
  }
  for (std::uint64_t i = 0; i < capacity; ++i) {
    const auto had = hands[i].payload.flatten().value();
    CHECK(std::memcmp(had.data(), bytes.data() + i * kBlock, kBlock) == 0);
  }
  hands.clear();
  CHECK(rig.reads_for(0, kBlock, bytes.substr(0, kBlock)) == 1);
  CHECK(rig.reads_for(0, kBlock, bytes.substr(0, kBlock)) == 0);
}

TEST_CASE("what is read once does not push out what is read again and again") {
  Rig rig;
  const std::uint64_t capacity = rig.view().capacity_blocks;
  REQUIRE(rig.write(kObject, 0, letters(10 * capacity * kBlock)).has_value());
  const auto once = [&](std::uint64_t block) {
    const std::uint64_t before = rig.store.reads;
    REQUIRE(rig.read(kObject, block * kBlock, kBlock).has_value());
    return rig.store.reads - before;
  };
  for (int round = 0; round < 2; ++round) {
    for (std::uint64_t i = 0; i < capacity / 2; ++i) once(i);
  }
  for (std::uint64_t i = capacity; i < 10 * capacity; ++i) CHECK(once(i) == 1);
  std::uint64_t reads = 0;
  for (std::uint64_t i = 0; i < capacity / 2; ++i) reads += once(i);
  CHECK(reads == 0);
  CHECK(rig.view().evictions.load() > 0);
}

TEST_CASE("a block that is written stays, with what was written") {
  Rig rig;
  auto bytes = letters(3 * kBlock);
  REQUIRE(rig.write(kObject, 0, bytes).has_value());
  CHECK(rig.reads_for(0, 3 * kBlock, bytes) == 1);
  const std::string change(kBlock, 'X');
  REQUIRE(rig.write(kObject, kBlock / 2, change).has_value());
  bytes.replace(kBlock / 2, kBlock, change);
  CHECK(rig.reads_for(0, 3 * kBlock, bytes) == 0);
  // Beyond the end: the gap is zeros, and the block that was the last goes on.
  REQUIRE(rig.write(kObject, 3 * kBlock + 100, "tail").has_value());
  bytes += std::string(100, '\0') + "tail";
  CHECK(rig.reads_for(0, 4 * kBlock, bytes) == 1);
  CHECK(rig.reads_for(0, 4 * kBlock, bytes) == 0);
  // Bytes in a pipe are not looked at.
  REQUIRE(rig.write_piped(kObject, 10, "piped").has_value());
  bytes.replace(10, 5, "piped");
  CHECK(rig.reads_for(0, 100, bytes.substr(0, 100)) == 1);
}

TEST_CASE("an object that is cut and grows again has zeros there") {
  Rig rig;
  auto bytes = letters(2 * kBlock);
  REQUIRE(rig.write(kObject, 0, bytes).has_value());
  CHECK(rig.reads_for(0, 2 * kBlock, bytes) == 1);
  REQUIRE(rig.truncate(kObject, 100).has_value());
  CHECK(rig.text(kObject, 0, 2 * kBlock) == bytes.substr(0, 100));
  REQUIRE(rig.truncate(kObject, 1000).has_value());
  CHECK(rig.text(kObject, 0, 2 * kBlock) == bytes.substr(0, 100) + std::string(900, '\0'));
  REQUIRE(rig.punch(kObject, 0, 50).has_value());
  CHECK(rig.text(kObject, 0, 51) == std::string(50, '\0') + bytes[50]);
  REQUIRE(rig.remove(kObject).has_value());
  CHECK(rig.read(kObject, 0, 10).error() == Errc::kNotFound);
}

TEST_CASE("a read that a write overtakes does not bring back what was") {
  Rig rig;
  REQUIRE(rig.write(kObject, 0, std::string(kBlock, 'o')).has_value());
  rig.store.hold = true;
  const auto old = rig.begin_read(0, kBlock);
  rig.store.carry_out(0);
  rig.begin_write(0, std::string(kBlock, 'n'));
  rig.store.finish(1);
  rig.store.answer(0);
  CHECK(*old == std::string(kBlock, 'o'));
  rig.store.hold = false;
  CHECK(rig.reads_for(0, kBlock, std::string(kBlock, 'n')) == 1);
  CHECK(rig.reads_for(0, kBlock, std::string(kBlock, 'n')) == 0);
}

TEST_CASE("while a write is under way reads go to the store, and two leave nothing") {
  Rig rig;
  REQUIRE(rig.write(kObject, 0, std::string(kBlock, 'o')).has_value());
  CHECK(rig.reads_for(0, 10, std::string(10, 'o')) == 1);
  rig.store.hold = true;
  rig.begin_write(0, "1");
  const auto during = rig.begin_read(0, 10);
  CHECK_FALSE(during->has_value());
  rig.begin_write(5, "2");  // of the same block: in which order is the store's to say
  rig.store.finish_all();
  rig.store.hold = false;
  CHECK(rig.reads_for(0, 10, "1oooo2oooo") == 1);
}

TEST_CASE("a read to where the end is being moved goes to the store") {
  Rig rig;
  REQUIRE(rig.write(kObject, 0, std::string(100, 'o')).has_value());
  CHECK(rig.reads_for(0, 200, std::string(100, 'o')) == 1);
  rig.store.hold = true;
  rig.begin_write(2 * kBlock, "far");
  rig.store.carry_out(0);
  CHECK(rig.begin_read(0, 100)->has_value());
  const auto over = rig.begin_read(50, 100);
  CHECK_FALSE(over->has_value());
  rig.store.finish(1);
  CHECK(*over == std::string(50, 'o') + std::string(50, '\0'));
  rig.store.finish_all();
  rig.store.hold = false;
  CHECK(rig.reads_for(50, 100, std::string(50, 'o') + std::string(50, '\0')) == 0);
}

TEST_CASE("an object that is cut before a write to its middle ends behind that") {
  Rig rig;
  auto bytes = std::string(2 * kBlock, 'o');
  REQUIRE(rig.write(kObject, 0, bytes).has_value());
  CHECK(rig.reads_for(0, 2 * kBlock, bytes) == 1);
  rig.store.hold = true;
  rig.begin_write(kBlock + 100, "middle");
  rig.cached->truncate(kObject, 50, [](const Result<ObjectStat>&) {});
  rig.store.finish(1);
  const auto cut = rig.begin_read(0, 100);
  rig.store.finish(1);
  CHECK(*cut == std::string(50, 'o'));
  rig.store.finish_all();
  rig.store.hold = false;
  bytes = std::string(50, 'o') + std::string(kBlock + 50, '\0') + "middle";
  CHECK(rig.text(kObject, 0, 2 * kBlock) == bytes);
}

TEST_CASE("a write that failed leaves nothing, and if it may still come nothing is kept") {
  Rig rig;
  REQUIRE(rig.write(kObject, 0, std::string(kBlock, 'o')).has_value());
  CHECK(rig.reads_for(0, 10, std::string(10, 'o')) == 1);
  rig.store.hold = true;
  rig.begin_write(0, "nnnn");
  rig.store.refuse(0, true);
  rig.store.hold = false;
  CHECK(rig.reads_for(0, 10, "nnoooooooo") == 1);
  rig.store.hold = true;
  rig.begin_write(0, "late");
  rig.store.refuse_early(0);
  rig.store.hold = false;
  CHECK(rig.reads_for(0, 10, "nnoooooooo") == 1);
  CHECK(rig.reads_for(0, 10, "nnoooooooo") == 1);
  rig.store.carry_out_late();
  CHECK(rig.reads_for(0, 10, "lateoooooo") == 1);
  CHECK(rig.reads_for(0, 10, "lateoooooo") == 0);
}

TEST_CASE("what was not stable goes with the verifier") {
  Rig rig;
  REQUIRE(rig.write(kObject, 0, std::string(2 * kBlock, 'o'), Stability::kFileSync).has_value());
  REQUIRE(rig.write(kObject, kBlock - 8, "unstableunstable").has_value());
  CHECK(rig.reads_for(kBlock - 8, 16, "unstableunstable") == 1);
  CHECK(rig.reads_for(kBlock - 8, 16, "unstableunstable") == 0);
  rig.store.hold = true;
  const auto before = rig.begin_read(kBlock / 2, 8);  // from memory
  CHECK(before->has_value());
  rig.begin_write(0, "also lost");
  rig.store.carry_out(0);
  rig.store.lose_unstable();
  rig.store.answer(0);
  rig.store.hold = false;
  CHECK(rig.reads_for(0, 8, "oooooooo") == 1);
  CHECK(rig.reads_for(0, 8, "oooooooo") == 0);
  CHECK(rig.reads_for(kBlock, 8, "oooooooo") == 1);
  CHECK(rig.view().lost.load() == 1);
}

TEST_CASE("what looks at the disk is not answered from memory") {
  Rig rig;
  REQUIRE(rig.write(kObject, 0, std::string(kBlock, 'o')).has_value());
  CHECK(rig.reads_for(0, 10, std::string(10, 'o')) == 1);
  rig.store.files[kObject].now[3] = 'R';  // rot
  const auto seen = rig.wait<ReadResult>([&](auto done) {
    rig.any().read({.object = kObject, .count = 10, .uncached = true}, std::move(done));
  });
  CHECK(seen->payload.flatten().value()[3] == std::byte{'R'});
  CHECK(rig.store.uncached_reads == 1);
  CHECK(rig.reads_for(0, 10, std::string(10, 'o')) == 0);
}

TEST_CASE("a block that cannot be read does not take with it what was asked for") {
  Rig rig;
  const auto bytes = letters(kBlock);
  REQUIRE(rig.write(kObject, 0, bytes).has_value());
  rig.store.broken = Errc::kIo;
  rig.store.broken_at = 10'000;
  CHECK(rig.reads_for(0, 4096, bytes.substr(0, 4096)) == 2);
  CHECK(rig.read(kObject, 9000, 4096).error() == Errc::kIo);
  rig.store.broken = Errc{};
  CHECK(rig.reads_for(0, kBlock, bytes) == 1);
}

TEST_CASE("reads into a caller's room are served from memory, and bring blocks") {
  Rig rig;
  const auto bytes = letters(3 * kBlock + 500);
  REQUIRE(rig.write(kObject, 0, bytes).has_value());
  const auto into = [&](std::uint64_t offset, std::uint32_t count) {
    auto room = rig.pool().allocate(64 << 10).value();
    const std::byte* at = room.data();
    const std::uint64_t before = rig.store.reads;
    const auto result = rig.wait<ReadResult>([&](auto done) {
      rig.any().read({.object = kObject, .offset = offset, .count = count, .room = std::move(room)},
                     std::move(done));
    });
    REQUIRE(result.has_value());
    if (!result->payload.pieces().empty()) {
      REQUIRE(result->payload.pieces().size() == 1);
      CHECK(std::get<Buffer>(result->payload.pieces().front()).data() == at);
    }
    const auto got = result->payload.flatten().value();
    CHECK(std::string(reinterpret_cast<const char*>(got.data()), got.size()) ==
          (offset < bytes.size() ? bytes.substr(offset, count) : ""));
    return rig.store.reads - before;
  };
  CHECK(into(0, kBlock) == 1);  // whole blocks: there at once
  CHECK(into(100, 200) == 0);
  CHECK(into(20'000, 5000) == 1);  // a part of one
  CHECK(into(kBlock, kBlock) == 0);
  CHECK(into(3 * kBlock, 4096) == 1);
  CHECK(into(3 * kBlock, 4096) == 0);
  CHECK(into(4 * kBlock, 4096) == 0);
}

TEST_CASE("stores that share a cache have their own objects") {
  test::HeldStore one;
  test::HeldStore two;
  const auto cache = BlockCache::create(BlockCache::kLeast).value();
  one.files[kObject].now = std::string(100, '1');
  two.files[kObject].now = std::string(100, '2');
  const auto first = [](CachedStore& store) {
    std::byte byte{};
    store.read(kObject, 0, 100,
               [&](Result<ReadResult> result) { byte = result->payload.flatten().value()[0]; });
    return static_cast<char>(byte);
  };
  CachedStore a(one, *cache);
  {
    CachedStore b(two, *cache);
    for (int i = 0; i < 2; ++i) {
      CHECK(first(a) == '1');
      CHECK(first(b) == '2');
    }
    CHECK(one.reads + two.reads == 2);
    two.lose_unstable();
    two.files[kObject].now = std::string(100, '3');
    CHECK(first(b) == '3');
    CHECK(first(a) == '1');
    CHECK(one.reads == 1);
    CHECK(cache->view().blocks.load() == 2);
  }
  CHECK(cache->view().blocks.load() == 1);
}

// A store of one object, whose block b is all of one byte at any time, for many threads.
class SharedBytes final : public Store {
 public:
  static constexpr unsigned kBlocks = 100;
  void read(StoreRead what, Done<ReadResult> done) override {
    auto buffer = pool_.allocate(what.count).value();
    {
      const std::lock_guard lock(mutex_);
      std::memcpy(buffer.data(), bytes_.data() + what.offset, what.count);
    }
    ReadResult result{.object_end = bytes_.size()};
    result.payload.append(std::move(buffer));
    done(std::move(result));
  }
  void write(StoreWrite what, Done<WriteResult> done) override {
    const Buffer& data = what.data[0];
    {
      const std::lock_guard lock(mutex_);
      std::memcpy(bytes_.data() + what.offset, data.data(), data.size());
    }
    done(WriteResult{data.size(), what.wanted, 1, bytes_.size()});
  }
  void commit(const layout::ObjectId&, Done<WriteVerifier> done) override { done(1); }
  void truncate(const layout::ObjectId&, std::uint64_t, Done<ObjectStat> done) override {
    done(ObjectStat{});
  }
  void remove(const layout::ObjectId&, Done<void> done) override { done({}); }
  void stat(const layout::ObjectId&, Done<ObjectStat> done) override { done(ObjectStat{}); }
  void allocate(const layout::ObjectId&, std::uint64_t, std::uint64_t, Done<void> done) override {
    done({});
  }
  void punch(const layout::ObjectId&, std::uint64_t, std::uint64_t, Done<void> done) override {
    done({});
  }
  [[nodiscard]] WriteVerifier verifier() const override { return 1; }
  [[nodiscard]] Result<StoreStat> usage() const override { return StoreStat{}; }

 private:
  std::mutex mutex_;
  std::string bytes_ = std::string(kBlocks * kBlock, '\0');
  BufferPool pool_{std::size_t{64} << 20};
};

// Each thread writes blocks of its own, ever greater bytes, and reads all.
TEST_CASE("threads never read what is older than what was answered") {
  constexpr unsigned kThreads = 4;
  SharedBytes store;
  const auto cache = BlockCache::create(BlockCache::kLeast).value();
  CachedStore cached(store, *cache);
  std::vector<std::atomic<unsigned>> answered(SharedBytes::kBlocks);
  std::atomic<unsigned> wrong{0};
  const auto work = [&](unsigned me) {
    SeededRandom random(me + 1);
    BufferPool pool(std::size_t{1} << 20);
    for (int i = 0; i < 4000; ++i) {
      const auto block = static_cast<unsigned>(random.below(SharedBytes::kBlocks));
      if (block % kThreads == me && random.below(4) == 0 && answered[block].load() < 250) {
        const unsigned next = answered[block].load() + 1;
        std::vector<Buffer> data;
        data.push_back(pool.allocate(kBlock).value());
        std::memset(data[0].data(), static_cast<int>(next), kBlock);
        cached.write(kObject, block * kBlock, std::move(data), Stability::kUnstable,
                     [&](const Result<WriteResult>&) { answered[block].store(next); });
        continue;
      }
      const unsigned least = answered[block].load();
      cached.read(kObject, block * kBlock, kBlock, [&](Result<ReadResult> result) {
        const auto bytes = result->payload.flatten().value();
        const auto value = static_cast<unsigned>(bytes[0]);
        if (value < least || bytes[kBlock - 1] != bytes[0]) wrong.fetch_add(1);
      });
    }
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned me = 0; me < kThreads; ++me) threads.emplace_back(work, me);
  }
  CHECK(wrong.load() == 0);
  CHECK(cache->view().hits.load() > 0);
}

}  // namespace
}  // namespace weft::ds
