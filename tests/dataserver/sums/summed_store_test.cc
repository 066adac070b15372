// Checksums over objects in files: what they find, and what they cost.
#include "dataserver/sums/summed_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <optional>

#include "dataserver/parity/blocks.h"
#include "tests/dataserver/store/held_store.h"
#include "tests/dataserver/store/store_model.h"
#include "tests/dataserver/store/store_runner.h"
#include "tests/dataserver/temp_folder.h"

namespace weft::ds {
namespace {

using test::StoreRunner;
using test::TempFolder;

constexpr layout::ObjectId kObject{.fileid = 1, .generation = 1};
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// Over a store in files, all on this thread.
struct Runner : StoreRunner {
  explicit Runner(const TempFolder& folder, SummedStore::Options with = small())
      : StoreRunner({.path = folder.path() + "/store"}) {
    sums = std::make_unique<SummedStore>(store(), pool(), with);
    REQUIRE(wait<void>([&](auto done) { sums->open(std::move(done)); }));
  }
  ~Runner() override { drain(); }
  static SummedStore::Options small() { return {.idle = std::chrono::seconds(1)}; }
  Store& any() override { return *sums; }
  void seal() {
    for (int i = 0; i < 4; ++i) {
      sums->poll();
      do {
        context_.restart();
        context_.run_for(std::chrono::milliseconds(2));
      } while (!sums->idle());
    }
  }
  Result<ReadResult> scrub(const layout::ObjectId& object, std::uint32_t count) {
    return wait<ReadResult>([&](auto done) {
      any().read({.object = object, .count = count, .uncached = true}, std::move(done));
    });
  }
  // Of the bytes on the disk.
  void flip(const TempFolder& folder, std::uint64_t at) {
    const std::string path = folder.path() + "/store/objects/" + object_path(kObject);
    const OwnedFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    char byte = 0;
    REQUIRE(::pread(file.get(), &byte, 1, static_cast<off_t>(at)) == 1);
    byte = static_cast<char>(byte ^ 4);
    REQUIRE(::pwrite(file.get(), &byte, 1, static_cast<off_t>(at)) == 1);
  }
  std::unique_ptr<SummedStore> sums;
};

std::string pattern(std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 31 + i / 4093);
  return bytes;
}

TEST_CASE("a store with checksums behaves like strings in memory") {
  const TempFolder folder;
  Runner runner(folder);
  CHECK(test::behaves_like_strings(runner));
  runner.seal();
  CHECK(test::behaves_like_strings(runner));
  CHECK(runner.sums->view().bad_blocks == 0);
}

TEST_CASE(
    "a bit that changed is not answered with, and a write of all of the block makes it good") {
  const TempFolder folder;
  Runner runner(folder);
  const std::string bytes = pattern(3 * kMiB + 1000);
  REQUIRE(runner.write(kObject, 0, bytes));
  runner.seal();
  CHECK(runner.sums->view().sealed_blocks == 769);
  CHECK(runner.text(kObject, 0, 4 * kMiB) == bytes);
  CHECK(runner.sums->view().checked_blocks == 769);
  for (const std::uint64_t at : {std::uint64_t{0}, kMiB + 4095, 3 * kMiB + 999}) {
    CAPTURE(at);
    runner.flip(folder, at);
    const std::uint64_t block = at / kParityBlock * kParityBlock;
    CHECK(runner.read(kObject, at, 1).error() == Errc::kIo);
    CHECK(runner.scrub(kObject, 4 * kMiB).error() == Errc::kIo);
    const std::uint64_t beside = block == 0 ? kParityBlock : block - kParityBlock;
    CHECK(runner.text(kObject, beside, 4096) == bytes.substr(beside, 4096));
    CHECK(runner.write(kObject, at - at % 4096 + 1, "x").error() == Errc::kIo);
    REQUIRE(runner.write(kObject, block, bytes.substr(block, 4096)));
    CHECK(runner.text(kObject, 0, 4 * kMiB) == bytes);
  }
}

TEST_CASE("checksums outlive an orderly end") {
  const TempFolder folder;
  const std::string bytes = pattern(100'000);
  {
    Runner runner(folder);
    REQUIRE(runner.write(kObject, 0, bytes));
    runner.seal();
    CHECK(runner.sums->usage().value().objects == 1);
  }
  Runner runner(folder);
  CHECK(runner.sums->usage().value().objects == 1);
  CHECK(runner.list(10).value().size() == 1);
  CHECK(runner.text(kObject, 0, kMiB) == bytes);
  runner.flip(folder, 50'000);
  CHECK(runner.read(kObject, 0, kMiB).error() == Errc::kIo);
  REQUIRE(runner.remove(kObject));
  CHECK(runner.sums->usage().value().objects == 0);
  CHECK(runner.store().usage().value().objects == 0);
}

TEST_CASE("what was there before checksums is read as it is, and sealed by a scrub") {
  const TempFolder folder;
  const std::string bytes = pattern(100'000);
  {
    StoreRunner runner({.path = folder.path() + "/store"});
    REQUIRE(runner.write(kObject, 0, bytes));
  }
  Runner runner(folder);
  runner.flip(folder, 10);
  CHECK(runner.read(kObject, 0, kMiB));
  CHECK(runner.sums->view().unknown_blocks == 25);
  runner.flip(folder, 10);
  REQUIRE(runner.scrub(kObject, kMiB));
  runner.seal();
  CHECK(runner.text(kObject, 0, kMiB) == bytes);
  runner.flip(folder, 10);
  CHECK(runner.read(kObject, 0, kMiB).error() == Errc::kIo);
}

TEST_CASE("where checksums are switched off none is left behind") {
  const TempFolder folder;
  {
    Runner runner(folder);
    REQUIRE(runner.write(kObject, 0, pattern(100'000)));
    runner.seal();
  }
  StoreRunner plain({.path = folder.path() + "/store"});
  CHECK(plain.store().usage().value().objects == 2);
  REQUIRE(plain.wait<void>(
      [&](auto done) { SummedStore::remove_all(plain.store(), std::move(done)); }));
  CHECK(plain.list(10).value() == std::vector{kObject});
}

TEST_CASE("a cut leaves a bad block bad of which a part stays, and has a good one sealed") {
  const TempFolder folder;
  Runner runner(folder);
  REQUIRE(runner.write(kObject, 0, pattern(4 * 4096)));
  runner.seal();
  runner.flip(folder, 4096 + 900);
  runner.flip(folder, 900);
  REQUIRE(runner.truncate(kObject, 4096 + 2000));
  CHECK(runner.read(kObject, 4096, 100).error() == Errc::kIo);
  REQUIRE(runner.punch(kObject, 100, 200));
  CHECK(runner.read(kObject, 0, 50).error() == Errc::kIo);
  const std::string bytes = pattern(2 * 4096);
  REQUIRE(runner.write(kObject, 0, bytes));
  REQUIRE(runner.truncate(kObject, 4096 + 1000));
  REQUIRE(runner.punch(kObject, 100, 200));
  CHECK(runner.text(kObject, 0, 100) == bytes.substr(0, 100));
  CHECK(runner.text(kObject, 4096, 4096) == bytes.substr(4096, 1000));
  runner.seal();
  runner.flip(folder, 4096 + 900);
  CHECK(runner.read(kObject, 4096, 100).error() == Errc::kIo);
  runner.flip(folder, 50);
  CHECK(runner.read(kObject, 300, 50).error() == Errc::kIo);
}

// Over a store in memory, where each operation is over at once unless it is held.
struct InMemory {
  explicit InMemory(SummedStore::Options with = Runner::small()) : sums(beneath, pool, with) {
    ring->bind_to_this_thread();
  }
  // Of whole blocks.
  void write(const layout::ObjectId& object, std::uint64_t block, bool expected = true) {
    std::vector<Buffer> data;
    data.push_back(pool.allocate(kParityBlock).value());
    std::memset(data.back().data(), 'x', kParityBlock);
    std::optional<bool> good;
    sums.write(object, block * kParityBlock, std::move(data), Stability::kUnstable,
               [&](const Result<WriteResult>& result) { good = result.has_value(); });
    beneath.finish_all();
    CHECK(good == expected);
  }
  void seal() {
    for (int i = 0; i < 3; ++i) sums.poll();
  }
  // Whether the disk has a checksum of it.
  [[nodiscard]] bool known(const layout::ObjectId& object) {
    const auto found = beneath.files.find(sums_of(object));
    return found != beneath.files.end() &&
           std::ranges::any_of(found->second.durable, [](char byte) { return byte != '\0'; });
  }
  test::HeldStore beneath;
  boost::asio::io_context context;
  std::unique_ptr<IoRing> ring = IoRing::create(context).value();
  BufferPool pool{std::size_t{64} << 20};
  SummedStore sums;
};

TEST_CASE("writes into one region cost one sync until it is sealed, and new bytes none") {
  InMemory rig;
  const layout::ObjectId kept = sums_of(kObject);
  rig.write(kObject, 0);
  rig.write(kObject, 9);
  CHECK_FALSE(rig.beneath.files.contains(kept));
  rig.seal();
  CHECK(rig.known(kObject));
  rig.write(kObject, 1);
  CHECK_FALSE(rig.known(kObject));
  // It is written only when the region is sealed again.
  rig.beneath.files[kept].now = "not looked at";
  rig.write(kObject, 2);
  rig.write(kObject, 9);
  CHECK(rig.beneath.files[kept].now == "not looked at");
  rig.seal();
  CHECK(rig.known(kObject));
}

TEST_CASE("of more regions than may wait the oldest are given up, and no write is refused") {
  InMemory rig({.idle = std::chrono::seconds(1), .memory = 8 * SumTable::kRegionBytes});
  const auto object = [](std::uint64_t i) { return layout::ObjectId{1 + i, 1}; };
  for (std::uint64_t i = 0; i < 50; ++i) rig.write(object(i), 0);
  for (std::uint64_t i = 0; i < 6; ++i) rig.write(object(i), 1);
  rig.seal();
  unsigned known = 0;
  for (std::uint64_t i = 0; i < 50; ++i) known += rig.known(object(i)) ? 1 : 0;
  CHECK(known >= 6);
  CHECK(known <= 8);
}

TEST_CASE("an object may have more regions than may wait") {
  InMemory rig({.idle = std::chrono::seconds(1), .memory = 2 * SumTable::kRegionBytes});
  for (std::uint64_t i = 0; i < 4; ++i) rig.write(kObject, i * kSumRegionBlocks);
  rig.seal();
  CHECK(rig.known(kObject));
}

// What the page cache has after a sync that failed is not what the disk has.
TEST_CASE("checksums that may be on the disk still are made unknown again") {
  InMemory rig({.idle = std::chrono::seconds(1), .memory = 1 * SumTable::kRegionBytes});
  rig.write(kObject, 0);
  rig.seal();
  const std::string old = rig.beneath.files[sums_of(kObject)].durable;
  bool good = true;
  rig.beneath.hold = true;
  std::vector<Buffer> data;
  data.push_back(rig.pool.allocate(kParityBlock).value());
  rig.sums.write(kObject, 0, std::move(data), Stability::kUnstable,
                 [&](const Result<WriteResult>& result) { good = result.has_value(); });
  while (rig.beneath.held() > 0 && !rig.beneath.carried_out(0)) {
    const bool read = rig.beneath.files[sums_of(kObject)].now == old;
    rig.beneath.carry_out(0);
    if (read && rig.beneath.files[sums_of(kObject)].now == old) {
      rig.beneath.answer(0);
    } else {
      rig.beneath.refuse(0, false);
    }
  }
  rig.beneath.hold = false;
  CHECK_FALSE(good);
  rig.beneath.files[sums_of(kObject)].durable = old;
  rig.write({.fileid = 2, .generation = 1}, 0);  // the region is given up
  CHECK(rig.known(kObject));
  rig.write(kObject, 0);
  CHECK_FALSE(rig.known(kObject));
}

TEST_CASE("a write over regions, and an object of many") {
  const TempFolder folder;
  Runner runner(folder);
  const std::string bytes = pattern(2 * kMiB);
  const std::uint64_t at = kSumRegion - kMiB - 17;
  REQUIRE(runner.write(kObject, at, bytes));
  REQUIRE(runner.write(kObject, 9 * kSumRegion, "far"));
  runner.seal();
  CHECK(runner.text(kObject, at, 2 * kMiB) == bytes);
  CHECK(runner.text(kObject, 9 * kSumRegion, 10) == "far");
  runner.flip(folder, kSumRegion + 5);
  CHECK(runner.read(kObject, at, 2 * kMiB).error() == Errc::kIo);
  REQUIRE(runner.write(kObject, kSumRegion, bytes.substr(kMiB + 17, 4096)));
  REQUIRE(runner.truncate(kObject, kSumRegion + 4));
  REQUIRE(runner.truncate(kObject, kSumRegion + 4096));
  CHECK(runner.text(kObject, kSumRegion, 6) == bytes.substr(kMiB + 17, 4) + std::string(2, '\0'));
}

}  // namespace
}  // namespace weft::ds
