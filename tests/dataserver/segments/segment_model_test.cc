// Random reads, changes, idle seconds, losses of unstable data, restarts and power losses, over two
// stores that carry operations out in any order and fail them: what a segment answers is what the
// store beneath has at that moment, never an older byte.
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>

#include "rpc/base/clock.h"
#include "tests/dataserver/segments/segment_rig.h"

namespace weft::ds {
namespace {

using test::HeldStore;

struct Shape {
  std::uint64_t strips;  // of an object
  std::uint64_t objects;
  std::uint64_t clients;
  std::uint64_t size;  // of all segments, and of memory for them: strips
  std::uint64_t cache;
};

// Segments of one piece, and others beside them.
constexpr Shape kSmall{.strips = 12, .objects = 3, .clients = 2, .size = 10, .cache = 6};
// Segments of three pieces.
constexpr Shape kLarge{.strips = 40, .objects = 1, .clients = 1, .size = 60, .cache = 44};

struct Rig {
  Rig(std::uint64_t seed, const Shape& of) : shape(of), random(seed) {
    ring->bind_to_this_thread();
    begin();
  }
  ~Rig() { end(); }
  [[nodiscard]] bool one_in(std::uint64_t n) { return random.below(n) == 0; }
  [[nodiscard]] layout::ObjectId object() {
    return {.fileid = 1 + random.below(shape.objects), .generation = 1};
  }

  void begin() {
    segments = std::make_unique<SegmentStore>(store, partition,
                                              SegmentOptions{.size = shape.size * kStrip,
                                                             .cache_bytes = shape.cache * kStrip,
                                                             .best = 1,
                                                             .recent = 2,
                                                             .idle = std::chrono::seconds(1)});
    store.hold = partition.hold = false;
    segments->open([](const Result<>& result) { REQUIRE(result.has_value()); });
    store.hold = partition.hold = true;
  }
  // Nothing is under way after it.
  void end() {
    dead = true;
    built += segments->table().view().built.load();
    segments->stop();
    while (store.held() + partition.held() > 0) {
      store.finish_all();
      partition.finish_all();
      run_ready();
    }
    while (store.late() > 0) store.carry_out_late();
    REQUIRE(segments->idle());
    segments.reset();
    dead = false;
    movers = 0;
  }

  // --- What clients do
  void read() {
    const auto id = object();
    // Now a pattern, now anything.
    const std::uint64_t index =
        one_in(6) ? random.below(shape.strips) : (cursor += 3) % shape.strips;
    const std::uint64_t skip = one_in(2) ? 0 : random.below(kStrip);
    const auto count = static_cast<std::uint32_t>(one_in(2) ? kStrip : 1 + random.below(3000));
    const std::uint64_t offset = index * kStrip + skip;
    segments->note_read(random.below(shape.clients), id, offset, count);
    read_range(id, offset, count);
  }
  void read_range(const layout::ObjectId& id, std::uint64_t offset, std::uint32_t count) {
    const std::uint64_t before = answered();
    segments->read(id, offset, count, [this, id, offset, count](Result<ReadResult> result) {
      // From a segment, if that was counted just now.
      if (dead || answered() == last_answered) return;
      last_answered = answered();
      REQUIRE(result.has_value());
      check(id, offset, count, *result);
    });
    CHECK(answered() - before <= 1);
  }
  [[nodiscard]] std::uint64_t answered() const {
    const SegmentView& view = segments->table().view();
    return view.hits.load() + view.waits.load();
  }
  void check(const layout::ObjectId& id, std::uint64_t offset, std::uint64_t count,
             const ReadResult& result) {
    ++checked;
    const auto found = store.files.find(id);
    REQUIRE(found != store.files.end());
    const std::string& now = found->second.now;
    if (movers == 0) REQUIRE(result.object_end == now.size());
    REQUIRE(result.object_end <= now.size());
    const auto bytes = result.payload.flatten().value();
    REQUIRE(bytes.size() == std::min(count, result.object_end - offset));
    REQUIRE(std::memcmp(bytes.data(), now.data() + offset, bytes.size()) == 0);
  }

  template <class T>
  [[nodiscard]] Store::Done<T> moved() {
    ++movers;
    return [this](const Result<T>& result) {
      if (dead) return;
      // After an error it may be carried out later.
      if (result || store.late() == 0) --movers;
    };
  }
  void write() {
    const auto id = object();
    const std::uint64_t offset =
        random.below(shape.strips) * kStrip + (one_in(2) ? 0 : random.below(kStrip));
    const std::uint64_t size = one_in(2) ? kStrip : 1 + random.below(2000);
    const auto letter = static_cast<char>('a' + ++letters % 26);
    auto buffer = pool.allocate(size).value();
    std::memset(buffer.data(), letter, size);
    std::vector<Buffer> data;
    data.push_back(std::move(buffer));
    segments->write(id, offset, std::move(data),
                    one_in(3) ? Stability::kFileSync : Stability::kUnstable, moved<WriteResult>());
  }
  void change() {
    const auto id = object();
    const std::uint64_t offset = random.below(shape.strips * kStrip);
    switch (random.below(5)) {
      case 0: return segments->truncate(id, offset, moved<ObjectStat>());
      case 1: return segments->remove(id, moved<void>());
      case 2: return segments->punch(id, offset, 1 + random.below(2 * kStrip), moved<void>());
      case 3: return segments->allocate(id, offset, kStrip, moved<void>());
      default: return segments->commit(id, [](const Result<WriteVerifier>&) {});
    }
  }

  // --- What happens to the stores
  void run_ready() {
    context.restart();
    context.poll();
  }
  void advance(HeldStore& one) {
    if (one_in(2)) run_ready();
    if (one.held() == 0) return;
    const std::size_t which = random.below(one.held());
    if (one_in(40)) return one.refuse(which, one_in(2));
    if (one_in(3) && !one.carried_out(which)) return one.carry_out(which);
    one.finish(which);
  }
  void quieten() {
    while (store.held() + partition.held() > 0) {
      store.finish_all();
      partition.finish_all();
      run_ready();
    }
    while (store.late() > 0) store.carry_out_late();
    movers = 0;
  }
  void idle() {
    if (one_in(2)) quieten();
    segments->poll();
    if (one_in(2)) quieten();
  }
  void power_loss() {
    auto of_store = store.after_power_loss(random, kStrip);
    auto of_partition = partition.after_power_loss(random, kStrip);
    end();
    store.lose_unstable();
    store.files = std::move(of_store);
    partition.files = std::move(of_partition);
    begin();
    last_answered = 0;
    read_all();
  }
  // Whatever is in a segment is compared.
  void read_all() {
    for (std::uint64_t id = 1; id <= shape.objects; ++id) {
      for (std::uint64_t index = 0; index < shape.strips; ++index) {
        read_range({.fileid = id, .generation = 1}, index * kStrip, kStrip);
        quieten();
      }
    }
  }

  void step() {
    switch (random.below(24)) {
      case 0:
        if (one_in(2)) write();
        if (!one_in(8)) break;
        for (std::uint64_t left = random.below(4); left > 0; --left) advance(store);
        power_loss();
        break;
      case 1:
        if (one_in(8)) change();
        break;
      case 2:
      case 3: idle(); break;
      case 4:
        if (one_in(10)) power_loss();
        break;
      case 5:
        if (one_in(10)) {
          quieten();
          store.lose_unstable();
        }
        break;
      case 6:
        if (one_in(20)) {
          end();
          begin();
          last_answered = 0;
        }
        break;
      case 7:
      case 8:
      case 9:
      case 10:
      case 11: read(); break;
      default: advance(one_in(2) ? store : partition); advance(store);
    }
  }

  const Shape shape;
  SeededRandom random;
  boost::asio::io_context context;
  std::unique_ptr<IoRing> ring = IoRing::create(context).value();
  BufferPool pool{std::size_t{64} << 20};
  HeldStore store;
  HeldStore partition;
  std::unique_ptr<SegmentStore> segments;
  bool dead = false;
  std::uint64_t cursor = 0;
  unsigned letters = 0;
  std::uint64_t movers = 0;  // changes under way: where an object ends is not asked for then
  std::uint64_t last_answered = 0;
  std::uint64_t checked = 0;
  std::uint64_t built = 0;
};

void run(const Shape& shape, std::uint64_t seeds) {
  std::uint64_t checked = 0;
  std::uint64_t built = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    Rig rig(seed, shape);
    for (int i = 0; i < 1500; ++i) rig.step();
    checked += rig.checked;
    rig.end();
    built += rig.built;
    rig.begin();
  }
  // It is about something.
  CHECK(checked > 20 * seeds);
  CHECK(built > seeds / 2);
}

TEST_CASE("segments never answer with an old byte, whatever happens") {
  const char* given = std::getenv("WEFT_SEGMENT_SEEDS");
  const std::uint64_t seeds = given == nullptr ? 60 : std::strtoull(given, nullptr, 10);
  run(kSmall, seeds);
  run(kLarge, (seeds + 3) / 4);
}

}  // namespace
}  // namespace weft::ds
