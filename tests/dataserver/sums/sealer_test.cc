// When regions are sealed, and with what, over a store in memory.
#include "dataserver/sums/sealer.h"

#include <catch2/catch_test_macros.hpp>
#include <optional>

#include "dataserver/sums/kept_sum.h"
#include "tests/dataserver/store/held_store.h"

namespace weft::ds {
namespace {

constexpr layout::ObjectId kObject{.fileid = 1, .generation = 1};
constexpr std::chrono::seconds kIdle{2};

struct Sealing {
  Sealing() {
    store.files[kObject] = {std::string(3 * kParityBlock, 'x'), ""};
    const SumTable::Turn turn = taken();
    table.add(kObject, {.index = 0, .cleared = true});
  }
  // At once, since nobody has it.
  SumTable::Turn taken() {
    std::optional<SumTable::Turn> turn;
    table.take_turn(kObject, [&](SumTable::Turn now) { turn.emplace(std::move(now)); });
    REQUIRE(turn);
    return std::move(*turn);
  }
  // A write of whole blocks, which begins and ends now.
  void touch(std::uint64_t first, std::uint64_t end) {
    const SumTable::Blocks blocks{.first = first, .end = end};
    REQUIRE(table.begin_at_once(kObject, blocks, sealer.now()));
    table.end_write(kObject, blocks, sealer.now());
  }
  void poll(int times) {
    for (int i = 0; i < times; ++i) sealer.poll();
  }
  KeptSums::Sums on_disk() {
    std::optional<Result<KeptSums::Sums>> read;
    spawn(kept.read(kObject, 0, 10), [&](auto found) { read.emplace(std::move(found)); });
    REQUIRE(read);
    return read->value();
  }
  static std::uint64_t sum_of(char byte, std::uint64_t block) {
    const std::string bytes(kParityBlock, byte);
    return kept_sum(std::as_bytes(std::span(bytes)), kObject, block);
  }
  [[nodiscard]] bool sealed() { return !table.has(kObject, 0); }

  BufferPool pool{std::size_t{64} << 20};
  test::HeldStore store;
  SumTable table;
  KeptSums kept{store, pool};
  SumView view;
  Sealer sealer{
      {.beneath = store, .pool = pool, .table = table, .kept = kept, .view = view, .idle = kIdle}};
};

}  // namespace

TEST_CASE("a region is sealed when nobody has written into it for a while") {
  Sealing sealing;
  sealing.touch(1, 3);
  sealing.poll(2);
  CHECK_FALSE(sealing.sealed());
  CHECK(sealing.on_disk().empty());
  sealing.poll(2);
  CHECK(sealing.sealed());
  CHECK(sealing.on_disk() ==
        KeptSums::Sums{kUnknownSum, Sealing::sum_of('x', 1), Sealing::sum_of('x', 2)});
  CHECK(sealing.view.sealed_blocks == 2);
  CHECK(sealing.store.files[kObject].durable == sealing.store.files[kObject].now);
  CHECK(sealing.sealer.idle());
}

TEST_CASE("what was touched behind the object's end has no checksum") {
  Sealing sealing;
  sealing.touch(0, 9);
  sealing.poll(5);
  CHECK(sealing.sealed());
  CHECK(sealing.on_disk().size() == 3);
}

TEST_CASE("checksums of bytes that are changed meanwhile do not come to the disk") {
  Sealing sealing;
  sealing.touch(0, 1);
  sealing.store.hold = true;
  sealing.poll(4);
  REQUIRE(sealing.store.held() == 1);  // the commit
  sealing.store.finish(0);
  REQUIRE(sealing.store.held() == 1);  // the read
  SECTION("by a write that is over") {
    sealing.touch(0, 1);
    sealing.store.finish_all();
    CHECK_FALSE(sealing.sealed());
    CHECK(sealing.view.sealed_blocks == 0);
    sealing.store.hold = false;
    CHECK(sealing.on_disk().empty());
    sealing.store.files[kObject].now.replace(0, kParityBlock, kParityBlock, 'y');
    sealing.poll(4);
    CHECK(sealing.sealed());
    CHECK(sealing.on_disk() == KeptSums::Sums{Sealing::sum_of('y', 0)});
  }
  SECTION("by one that is under way") {
    const SumTable::Blocks blocks{.first = 0, .end = 1};
    REQUIRE(sealing.table.begin_at_once(kObject, blocks, sealing.sealer.now()));
    sealing.store.finish_all();
    sealing.store.hold = false;
    sealing.poll(9);
    CHECK_FALSE(sealing.sealed());
    CHECK(sealing.on_disk().empty());
    sealing.table.end_write(kObject, blocks, sealing.sealer.now());
    sealing.poll(4);
    CHECK(sealing.sealed());
  }
}

TEST_CASE("a seal that fails is tried again, and the region stays till then") {
  Sealing sealing;
  sealing.touch(0, 1);
  sealing.store.hold = true;
  sealing.poll(4);
  SECTION("at the commit") {}
  SECTION("at the read") { sealing.store.finish(0); }
  sealing.store.refuse(0, /*half=*/false);
  sealing.store.hold = false;
  CHECK_FALSE(sealing.sealed());
  CHECK(sealing.on_disk().empty());
  CHECK(sealing.sealer.idle());
  sealing.poll(1);
  CHECK(sealing.sealed());
  CHECK(sealing.on_disk() == KeptSums::Sums{Sealing::sum_of('x', 0)});
}

TEST_CASE("after the store has lost writes what is sealed is read from the disk") {
  Sealing sealing;
  sealing.touch(0, 1);
  sealing.store.files[kObject].durable = std::string(3 * kParityBlock, 'y');
  sealing.store.lose_unstable();
  sealing.poll(4);
  CHECK(sealing.sealed());
  CHECK(sealing.store.uncached_reads == 1);
  CHECK(sealing.on_disk() == KeptSums::Sums{Sealing::sum_of('y', 0)});
}

}  // namespace weft::ds
