// Random reads, changes, seals, losses of unstable data, and power losses, over a store that
// carries operations out in any order and fails them: no block is ever called bad that is not, and
// once all is sealed, none that is bad is answered with.
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <cstring>

#include "dataserver/parity/blocks.h"
#include "dataserver/sums/summed_store.h"
#include "rpc/base/clock.h"
#include "tests/dataserver/store/held_store.h"

namespace weft::ds {
namespace {

using test::HeldStore;

constexpr std::uint64_t kObjects = 2;
constexpr std::uint64_t kSpace = 40 * kParityBlock;
constexpr std::uint64_t kSector = 512;

struct Rig {
  explicit Rig(std::uint64_t seed) : random(seed) {
    ring->bind_to_this_thread();
    begin();
  }
  ~Rig() { end(); }
  [[nodiscard]] bool one_in(std::uint64_t n) { return random.below(n) == 0; }
  [[nodiscard]] layout::ObjectId object() {
    return {.fileid = 1 + random.below(kObjects), .generation = 1};
  }
  [[nodiscard]] std::uint64_t offset() {
    const std::uint64_t at = random.below(kSpace);
    return one_in(2) ? at : at / kParityBlock * kParityBlock;
  }

  void begin() {
    sums = std::make_unique<SummedStore>(
        store, pool,
        SummedStore::Options{.idle = std::chrono::seconds(1),
                             .memory = (1 + random.below(4)) * SumTable::kRegionBytes});
    store.hold = true;
  }
  void end() {
    dead = true;
    quieten();
    sealed += sums->view().sealed_blocks;
    REQUIRE(sums->view().bad_blocks == bad);
    bad = 0;
    sums.reset();
    dead = false;
    changing = 0;
  }
  void quieten() {
    do {
      store.finish_all();
      context.restart();
      context.poll();
    } while (store.held() > 0);
  }

  void read() {
    const auto id = object();
    const std::uint64_t at = offset();
    const auto count = static_cast<std::uint32_t>(1 + random.below(5 * kParityBlock));
    const bool alone = changing == 0;
    const auto done = [=, this, before = begun](const Result<ReadResult>& result) {
      if (dead || !alone || begun != before || !result) return;
      ++checked;
      const std::string& now = store.files.at(id).now;
      const auto bytes = result->payload.flatten().value();
      REQUIRE(bytes.size() ==
              (at < now.size() ? std::min<std::uint64_t>(count, now.size() - at) : 0));
      REQUIRE((bytes.empty() || std::memcmp(bytes.data(), now.data() + at, bytes.size()) == 0));
    };
    if (one_in(3))
      return sums->read({.object = id, .offset = at, .count = count, .uncached = true}, done);
    if (one_in(2)) return sums->read(id, at, count, done);
    sums->read({.object = id, .offset = at, .count = count, .room = pool.allocate(count).value()},
               done);
  }
  template <class T>
  [[nodiscard]] Store::Done<T> changed() {
    ++changing;
    ++begun;
    return [this](const Result<T>&) { --changing; };
  }
  void write() {
    const std::uint64_t size =
        one_in(2) ? kParityBlock * (1 + random.below(4)) : 1 + random.below(2 * kParityBlock);
    auto buffer = pool.allocate(size).value();
    std::memset(buffer.data(), one_in(8) ? 0 : static_cast<int>('a' + ++letters % 26), size);
    std::vector<Buffer> data;
    data.push_back(std::move(buffer));
    sums->write(object(), offset(), std::move(data),
                one_in(3) ? Stability::kFileSync : Stability::kUnstable, changed<WriteResult>());
  }
  void change() {
    const auto id = object();
    switch (random.below(5)) {
      case 0: return sums->truncate(id, offset(), changed<ObjectStat>());
      case 1: return sums->remove(id, changed<void>());
      case 2: return sums->punch(id, offset(), 1 + random.below(20'000), changed<void>());
      case 3: return sums->allocate(id, offset(), 10'000, changed<void>());
      default: return sums->commit(id, [](const Result<WriteVerifier>&) {});
    }
  }
  void advance() {
    context.restart();
    context.poll();
    if (store.held() == 0) return;
    const std::size_t which = random.below(store.held());
    if (one_in(40)) return store.refuse(which, one_in(2));
    if (one_in(3) && !store.carried_out(which)) return store.carry_out(which);
    store.finish(which);
  }
  void power_loss() {
    auto files = store.after_power_loss(random, kSector);
    end();
    store.lose_unstable();
    store.files = std::move(files);
    begin();
    read_all(false);
  }
  // What a scrub does. All of it can be read.
  void read_all(bool uncached) {
    for (std::uint64_t id = 1; id <= kObjects; ++id) {
      const layout::ObjectId of{.fileid = id, .generation = 1};
      const auto done = [this, of](const Result<ReadResult>& result) {
        REQUIRE(result.has_value() == store.files.contains(of));
        if (result) ++checked;
      };
      sums->read({.object = of, .count = 2 * kSpace, .uncached = uncached}, done);
      quieten();
      for (int i = 0; uncached && i < 4; ++i) {
        sums->poll();
        quieten();
      }
    }
  }
  void seal_all() {
    quieten();
    for (int i = 0; i < 4; ++i) {
      sums->poll();
      quieten();
    }
    read_all(true);
  }
  [[nodiscard]] Errc read_block(const layout::ObjectId& id, std::uint64_t block) {
    Errc found{};
    sums->read(id, block * kParityBlock, kParityBlock, [&](const Result<ReadResult>& result) {
      if (!result) found = result.error().code;
    });
    quieten();
    return found;
  }
  // A bit changes of what is sealed.
  void rot() {
    seal_all();
    const auto id = object();
    const auto found = store.files.find(id);
    if (found == store.files.end() || found->second.now.empty()) return;
    const std::uint64_t at = random.below(found->second.now.size());
    const std::uint64_t block = at / kParityBlock;
    REQUIRE(read_block(id, block) == Errc{});
    for (std::string* bytes : {&found->second.now, &found->second.durable}) {
      bytes->at(at) = static_cast<char>(bytes->at(at) ^ 1 << random.below(8));
    }
    REQUIRE(read_block(id, block) == Errc::kIo);
    ++bad;
    // Neither a write beside it in its region nor one to a part of it makes it good.
    const std::uint64_t size = found->second.now.size();
    const auto put = [&](std::uint64_t offset, std::uint64_t count) {
      auto buffer = pool.allocate(count).value();
      std::memset(buffer.data(), 'z', count);
      std::vector<Buffer> data;
      data.push_back(std::move(buffer));
      bool good = false;
      sums->write(id, offset, std::move(data), Stability::kFileSync,
                  [&](const Result<WriteResult>& result) { good = result.has_value(); });
      quieten();
      return good;
    };
    const std::uint64_t end = std::min(size, (block + 1) * kParityBlock);
    if (end - block * kParityBlock > 1) {
      REQUIRE_FALSE(put(block * kParityBlock, 1));
      ++bad;
    }
    if (block > 0) REQUIRE(put((block - 1) * kParityBlock, kParityBlock));
    for (int i = 0; i < 4; ++i) {
      sums->poll();
      quieten();
    }
    REQUIRE(read_block(id, block) == Errc::kIo);
    ++bad;
    cut_beside(id, at, end);
    REQUIRE(put(block * kParityBlock, end - block * kParityBlock));
    REQUIRE(read_block(id, block) == Errc{});
    ++rotten;
  }

  // A part of a bad block goes, with what is wrong in the rest: it stays bad.
  void cut_beside(const layout::ObjectId& id, std::uint64_t at, std::uint64_t end) {
    const std::uint64_t begin = at / kParityBlock * kParityBlock;
    if (one_in(2) && at > begin) {
      sums->punch(id, begin, at - begin, [](const Result<>& result) { REQUIRE(result); });
    } else if (at + 1 < end) {
      sums->truncate(id, at + 1, [](const Result<ObjectStat>& result) { REQUIRE(result); });
    } else {
      return;
    }
    quieten();
    ++bad;
    REQUIRE(read_block(id, at / kParityBlock) == Errc::kIo);
    ++bad;
  }

  void step() {
    switch (random.below(24)) {
      case 0:
      case 1:
      case 2: write(); break;
      case 3:
        if (one_in(4)) change();
        break;
      case 4:
      case 5:
        sums->poll();
        if (one_in(3)) quieten();
        break;
      case 6:
        if (one_in(10)) power_loss();
        break;
      case 7:
        if (one_in(20)) {
          quieten();
          store.lose_unstable();
        }
        break;
      case 8:
        if (one_in(20)) {
          end();
          begin();
        }
        break;
      case 9:
        if (one_in(30)) rot();
        break;
      case 10:
      case 11:
      case 12: read(); break;
      default: advance();
    }
    REQUIRE(sums->view().bad_blocks == bad);
  }

  SeededRandom random;
  boost::asio::io_context context;
  std::unique_ptr<IoRing> ring = IoRing::create(context).value();
  BufferPool pool{std::size_t{64} << 20};
  HeldStore store;
  std::unique_ptr<SummedStore> sums;
  bool dead = false;
  unsigned letters = 0;
  int changing = 0;
  std::uint64_t begun = 0;  // changes
  std::uint64_t bad = 0;    // that were meant
  std::uint64_t checked = 0;
  std::uint64_t sealed = 0;
  std::uint64_t rotten = 0;
};

TEST_CASE("a good block is never called bad, and a bad one is never answered with") {
  const char* given = std::getenv("WEFT_SUMS_SEEDS");
  const std::uint64_t seeds = given == nullptr ? 60 : std::strtoull(given, nullptr, 10);
  std::uint64_t checked = 0;
  std::uint64_t sealed = 0;
  std::uint64_t rotten = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    Rig rig(seed);
    for (int i = 0; i < 1500; ++i) rig.step();
    rig.end();
    checked += rig.checked;
    sealed += rig.sealed;
    rotten += rig.rotten;
    rig.begin();
  }
  // It is about something.
  CHECK(checked > 20 * seeds);
  CHECK(sealed > 50 * seeds);
  CHECK(rotten > seeds / 2);
}

}  // namespace
}  // namespace weft::ds
