#include "dataserver/store/fence_table.h"

#include <fcntl.h>
#include <rapidcheck.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>

#include "dataserver/store/disk.h"
#include "tests/dataserver/temp_folder.h"

namespace weft::ds {
namespace {

using test::TempFolder;

constexpr layout::ObjectId kObject{.fileid = 5, .generation = 1, .fsid = 2};

layout::Handle handle_at(std::uint32_t object_epoch, std::uint32_t client_epoch) {
  return {.access = layout::Access::kReadWrite,
          .object = kObject,
          .client_id = 77,
          .object_epoch = object_epoch,
          .client_epoch = client_epoch};
}

TEST_CASE("fences hold for what is below them, and over a reopening") {
  const TempFolder folder;
  const auto directory = open_directory(folder.path()).value();
  {
    auto table = FenceTable::open(directory.get()).value();
    CHECK(table->admits(handle_at(0, 0)));
    REQUIRE(table->raise(std::vector<Fence>{{kObject, 3}, {std::uint64_t{77}, 2}}));
    REQUIRE(table->raise(std::vector<Fence>{{kObject, 1}}));  // never down
  }
  const auto table = FenceTable::open(directory.get()).value();
  CHECK_FALSE(table->admits(handle_at(2, 2)));
  CHECK_FALSE(table->admits(handle_at(3, 1)));
  CHECK(table->admits(handle_at(3, 2)));
  auto control = handle_at(3, 0);
  control.access = layout::Access::kControl;
  CHECK(table->admits(control));
  control.object_epoch = 2;
  CHECK_FALSE(table->admits(control));
  auto other = handle_at(0, 2);
  other.object.generation = 2;
  CHECK(table->admits(other));
}

TEST_CASE("a torn last frame is dropped, damage before it is refused") {
  const std::vector<Fence> first{{kObject, 1}};
  const std::vector<Fence> second{{std::uint64_t{9}, 4}, {kObject, 2}};
  auto bytes = fence_log_header();
  for (const auto& fences : {first, second}) {
    const auto frame = encode_fences(fences);
    bytes.insert(bytes.end(), frame.begin(), frame.end());
  }
  const std::size_t first_end = fence_log_header().size() + encode_fences(first).size();
  CHECK(decode_fence_log(bytes)->fences.size() == 3);
  for (std::size_t size = first_end; size < bytes.size(); ++size) {
    const auto log = decode_fence_log(std::span(bytes).first(size));
    REQUIRE(log);
    CHECK(log->fences == first);
    CHECK(log->good_bytes == first_end);
  }
  for (std::size_t at = 0; at < first_end; ++at) {
    auto damaged = bytes;
    damaged[at] ^= std::byte{0x10};
    CHECK(decode_fence_log(damaged).error() == Errc::kCorrupt);
  }
}

TEST_CASE("the log stays in proportion to what it says") {
  const TempFolder folder;
  const auto directory = open_directory(folder.path()).value();
  auto table = FenceTable::open(directory.get()).value();
  for (std::uint32_t epoch = 1; epoch < 200; ++epoch) {
    std::vector<Fence> fences;
    for (std::uint64_t client = 0; client < 100; ++client) fences.push_back({client, epoch});
    REQUIRE(table->raise(fences));
  }
  CHECK(std::filesystem::file_size(folder.path() + "/fences") < 6000 * 24);
  table = FenceTable::open(directory.get()).value();
  CHECK(table->size() == 100);
  CHECK_FALSE(
      table->admits({.access = layout::Access::kRead, .client_id = 50, .client_epoch = 198}));
}

TEST_CASE("any fences read back as written") {
  CHECK(rc::check("fence log round trip", [] {
    const auto raw =
        *rc::gen::arbitrary<std::vector<std::tuple<bool, std::uint64_t, std::uint32_t>>>();
    std::vector<Fence> fences;
    for (const auto& [is_object, id, epoch] : raw) {
      if (is_object) {
        fences.push_back({layout::ObjectId{.fileid = id, .generation = epoch, .fsid = 1}, epoch});
      } else {
        fences.push_back({id, epoch});
      }
    }
    auto bytes = fence_log_header();
    const auto frames = encode_fences(fences);
    bytes.insert(bytes.end(), frames.begin(), frames.end());
    RC_ASSERT(decode_fence_log(bytes)->fences == fences);
  }));
}

}  // namespace
}  // namespace weft::ds
