// Checksums as the disk has them, over a store in memory.
#include "dataserver/sums/kept_sums.h"

#include <catch2/catch_test_macros.hpp>
#include <optional>

#include "tests/dataserver/store/held_store.h"

namespace weft::ds {
namespace {

using Sums = KeptSums::Sums;

constexpr layout::ObjectId kObject{.fileid = 1, .generation = 1};
constexpr layout::ObjectId kOther{.fileid = 2, .generation = 1};

struct Kept {
  template <class T>
  static Result<T> value_of(Task<Result<T>> task) {
    std::optional<Result<T>> result;
    spawn(std::move(task), [&](Result<T> done) { result.emplace(std::move(done)); });
    REQUIRE(result);  // nothing is held
    return std::move(*result);
  }
  Result<> write(std::uint64_t region, const Sums& some, layout::ObjectId object = kObject) {
    return value_of(sums.write(object, region, some));
  }
  Sums read(std::uint64_t first, std::uint64_t end) {
    return value_of(sums.read(kObject, first, end)).value();
  }
  Result<> make_unknown(std::uint64_t first, std::uint64_t end) {
    return value_of(sums.make_unknown(kObject, first, end));
  }

  BufferPool pool{std::size_t{16} << 20};
  test::HeldStore store;
  KeptSums sums{store, pool};
};

}  // namespace

TEST_CASE("checksums are kept by region, and read as far as they are known") {
  Kept kept;
  CHECK(kept.read(0, 10).empty());
  REQUIRE(kept.write(0, {1, 2, 3}));
  CHECK(kept.read(0, 10) == Sums{1, 2, 3});
  CHECK(kept.read(1, 2) == Sums{2});
  CHECK(kept.read(3, 10).empty());
  REQUIRE(kept.write(2, {7}));
  CHECK(kept.read(2 * kSumRegionBlocks, 2 * kSumRegionBlocks + 5) == Sums{7});
  CHECK(kept.read(2, 5) == Sums{3, kUnknownSum, kUnknownSum});
  REQUIRE(kept.write(1, {}));  // of a region without any nothing is written
  CHECK(kept.sums.objects() == 1);
  CHECK(kept.store.files.size() == 1);
  CHECK_FALSE(kept.store.files.contains(kObject));
  const auto& file = kept.store.files.begin()->second;
  CHECK(file.durable == file.now);
}

TEST_CASE("checksums that become unknown are so durably, and no others") {
  Kept kept;
  REQUIRE(kept.make_unknown(0, KeptSums::kToTheEnd));  // of none
  REQUIRE(kept.make_unknown(0, 5));
  CHECK(kept.store.files.empty());
  REQUIRE(kept.write(0, {1, 2, 3}));
  REQUIRE(kept.write(1, {4, 5}));
  SECTION("some") {
    REQUIRE(kept.make_unknown(1, 2));
    CHECK(kept.read(0, 3) == Sums{1, kUnknownSum, 3});
  }
  SECTION("a region") {
    REQUIRE(kept.value_of(kept.sums.clear(kObject, 0)));
    CHECK(kept.read(0, 3) == Sums{kUnknownSum, kUnknownSum, kUnknownSum});
    CHECK(kept.read(kSumRegionBlocks, kSumRegionBlocks + 9) == Sums{4, 5});
  }
  SECTION("all from one on") {
    REQUIRE(kept.make_unknown(kSumRegionBlocks + 1, KeptSums::kToTheEnd));
    CHECK(kept.read(kSumRegionBlocks, kSumRegionBlocks + 9) == Sums{4});
    // What is behind the end already stays behind it.
    REQUIRE(kept.make_unknown(5 * kSumRegionBlocks, KeptSums::kToTheEnd));
    CHECK(kept.read(kSumRegionBlocks, kSumRegionBlocks + 9) == Sums{4});
  }
  const auto& file = kept.store.files.begin()->second;
  CHECK(file.durable == file.now);
  CHECK_FALSE(kept.sums.unsure());
}

TEST_CASE("objects of checksums are counted, and go with their objects") {
  Kept kept;
  kept.store.files[kObject] = {"bytes", "bytes"};
  REQUIRE(kept.write(0, {1}));
  REQUIRE(kept.write(0, {2}, kOther));
  REQUIRE(kept.write(0, {3}, kOther));
  CHECK(kept.sums.objects() == 2);
  KeptSums later(kept.store, kept.pool);
  REQUIRE(Kept::value_of(later.open()));
  CHECK(later.objects() == 2);
  REQUIRE(Kept::value_of(kept.sums.remove(kOther)));
  REQUIRE(Kept::value_of(kept.sums.remove(kOther)));
  CHECK(kept.sums.objects() == 1);
  REQUIRE(kept.write(0, {2}, kOther));
  REQUIRE(Kept::value_of(KeptSums::remove_all(kept.store)));
  REQUIRE(kept.store.files.size() == 1);
  CHECK(kept.store.files.contains(kObject));
}

TEST_CASE("what was to become unknown and failed to is not forgotten") {
  Kept kept;
  REQUIRE(kept.write(0, {1}));
  kept.store.hold = true;
  std::optional<Result<>> result;
  const auto done = [&](Result<> outcome) { result = std::move(outcome); };
  SECTION("a block") { spawn(kept.sums.make_unknown(kObject, 0, 1), done); }
  SECTION("all of it") {
    spawn(kept.sums.remove(kObject), done);
    kept.store.finish(0);  // it is looked for
  }
  REQUIRE(kept.store.held() == 1);
  CHECK_FALSE(kept.sums.unsure());
  kept.store.refuse(0, /*half=*/false);
  REQUIRE(result);
  CHECK_FALSE(*result);
  CHECK(kept.sums.unsure());
  CHECK(kept.sums.objects() == 1);
}

}  // namespace weft::ds
