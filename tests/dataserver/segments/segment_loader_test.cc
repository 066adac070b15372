#include "dataserver/segments/segment_loader.h"

#include <catch2/catch_test_macros.hpp>
#include <cstring>

#include "tests/dataserver/segments/segment_rig.h"

namespace weft::ds {
namespace {

using test::SegmentRig;
using test::strips_of;

const layout::ObjectId kObject{.fileid = 7, .generation = 1};

// Of which some are under way, and which of them have been answered, in order.
struct Readers {
  explicit Readers(SegmentRig& of) : rig(of) {}
  void read(std::uint64_t strip, const std::string& bytes) {
    rig.segments->read(kObject, strip * kStrip, 100, [=, this, &bytes](Result<ReadResult> result) {
      const auto got = result->payload.flatten().value();
      CHECK(std::memcmp(got.data(), bytes.data() + strip * kStrip, 100) == 0);
      answered.push_back(strip);
    });
  }
  SegmentRig& rig;
  std::vector<std::uint64_t> answered;
};

// A segment of 40 strips, every other one of an object: its pieces are of 16, 16 and 8.
struct ThreePieces : SegmentRig {
  ThreePieces() {
    REQUIRE(write(kObject, 0, bytes).has_value());
    std::vector<std::uint64_t> strips;
    for (std::uint64_t i = 0; i < 80; i += 2) strips.push_back(i);
    client_reads_strips(kObject, strips, 3);
    idle_second();
    REQUIRE(view().segments.load() == 1);
  }
  std::string bytes = strips_of(80);
};

TEST_CASE("a read is answered when its piece of a segment is there") {
  ThreePieces rig;
  Readers readers(rig);
  rig.partition.hold = true;
  readers.read(0, rig.bytes);
  readers.read(78, rig.bytes);
  readers.read(40, rig.bytes);
  REQUIRE(rig.partition.held() == 3);
  rig.partition.finish(1);
  CHECK(readers.answered == std::vector<std::uint64_t>{40});
  readers.read(34, rig.bytes);  // of the piece that is there
  CHECK(readers.answered == std::vector<std::uint64_t>{40, 34});
  CHECK(rig.view().loads.load() == 0);
  rig.partition.finish(1);
  CHECK(readers.answered == std::vector<std::uint64_t>{40, 34, 78});
  rig.partition.finish(0);
  CHECK(readers.answered == std::vector<std::uint64_t>{40, 34, 78, 0});
  CHECK(rig.view().loads.load() == 1);
  CHECK(rig.view().waits.load() == 3);
}

TEST_CASE("a segment of which one piece is damaged is dropped while another has been read") {
  ThreePieces rig;
  for (auto& [file, what] : rig.partition.files) {
    if (file.generation == 1) what.now[20 * kStrip] ^= 1;
  }
  rig.partition.hold = true;
  Readers readers(rig);
  readers.read(0, rig.bytes);
  readers.read(40, rig.bytes);
  readers.read(78, rig.bytes);
  REQUIRE(rig.partition.held() == 3);
  rig.partition.finish(0);
  CHECK(readers.answered == std::vector<std::uint64_t>{0});
  rig.partition.finish(0);  // damaged: the others are answered from beneath
  CHECK(readers.answered == std::vector<std::uint64_t>{0, 40, 78});
  rig.partition.finish_all();
  CHECK(rig.view().damaged.load() == 1);
  CHECK(rig.view().segments.load() == 0);
  CHECK(rig.segments->table().memory_bytes() == 0);
  readers.read(0, rig.bytes);
  CHECK(readers.answered.size() == 4);
}

TEST_CASE("a segment whose pieces could not all be read just now is not kept in part") {
  ThreePieces rig;
  rig.partition.broken = Errc::kBusy;
  rig.partition.broken_at = 20 * kStrip;
  Readers readers(rig);
  readers.read(0, rig.bytes);
  readers.read(40, rig.bytes);
  CHECK(readers.answered == std::vector<std::uint64_t>{0, 40});
  CHECK(rig.view().damaged.load() == 0);
  CHECK(rig.segments->table().memory_bytes() == 0);
  rig.partition.broken = {};
  readers.read(40, rig.bytes);
  CHECK(rig.view().loads.load() == 1);
}

TEST_CASE("segments come two at a time, in the order in which they are on the disk") {
  SegmentRig rig;
  const std::string bytes = strips_of(60);
  REQUIRE(rig.write(kObject, 0, bytes).has_value());
  for (std::uint64_t first = 1; first <= 4; ++first) {
    rig.client_reads_strips(kObject, {first, first + 10, first + 20, first + 30}, 4);
    rig.idle_second();
    REQUIRE(rig.view().segments.load() == first);
  }
  rig.partition.hold = true;
  Readers readers(rig);
  for (const std::uint64_t strip : {1, 3, 2, 4}) readers.read(strip, bytes);
  REQUIRE(rig.partition.held() == 2);
  rig.partition.finish(0);
  REQUIRE(rig.partition.held() == 2);
  rig.partition.finish(1);
  rig.partition.finish(0);
  rig.partition.finish(0);
  CHECK(readers.answered == std::vector<std::uint64_t>{1, 4, 3, 2});
  CHECK(rig.view().loads.load() == 4);
}

}  // namespace
}  // namespace weft::ds
