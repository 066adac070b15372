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
      REQUIRE(result.has_value());
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
  rig.finish(1);
  CHECK(readers.answered == std::vector<std::uint64_t>{40});
  readers.read(34, rig.bytes);  // of the piece that is there
  CHECK(readers.answered == std::vector<std::uint64_t>{40, 34});
  CHECK(rig.view().loads.load() == 0);
  rig.finish(1);
  CHECK(readers.answered == std::vector<std::uint64_t>{40, 34, 78});
  rig.finish(0);
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
  rig.finish(0);
  CHECK(readers.answered == std::vector<std::uint64_t>{0});
  rig.finish(0);  // damaged: the others are answered from beneath
  CHECK(readers.answered == std::vector<std::uint64_t>{0, 40, 78});
  rig.finish_all();
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

// Four segments, of strips 1 to 4 and each the tenth after them.
struct FourSegments : SegmentRig {
  FourSegments() {
    REQUIRE(write(kObject, 0, bytes).has_value());
    for (std::uint64_t first = 1; first <= 4; ++first) {
      client_reads_strips(kObject, {first, first + 10, first + 20, first + 30}, 4);
      idle_second();
      REQUIRE(view().segments.load() == first);
    }
  }
  void change(std::uint64_t strip) {
    std::vector<Buffer> data;
    data.push_back(buffer("!"));
    segments->write(kObject, strip * kStrip, std::move(data), Stability::kFileSync,
                    [](const Result<WriteResult>& result) { CHECK(result.has_value()); });
    bytes[strip * kStrip] = '!';
  }
  std::string bytes = strips_of(60);
};

TEST_CASE("segments come two at a time, in the order in which they are on the disk") {
  FourSegments rig;
  rig.partition.hold = true;
  Readers readers(rig);
  for (const std::uint64_t strip : {1, 4, 3, 2}) readers.read(strip, rig.bytes);
  REQUIRE(rig.partition.held() == 2);
  rig.finish(0);
  REQUIRE(rig.partition.held() == 2);
  rig.finish(1);
  rig.finish(1);
  rig.finish(0);
  CHECK(readers.answered == std::vector<std::uint64_t>{1, 2, 3, 4});
  CHECK(rig.view().loads.load() == 4);
}

TEST_CASE("a segment that waits is not passed over for ever") {
  FourSegments rig;
  rig.partition.hold = true;
  Readers readers(rig);
  for (const std::uint64_t strip : {3, 4, 2}) readers.read(strip, rig.bytes);
  REQUIRE(rig.partition.held() == 2);
  rig.finish(0);  // 3: now 2 is read, and 1 waits for the next sweep
  readers.read(1, rig.bytes);
  REQUIRE(rig.partition.held() == 2);
  rig.finish(1);
  CHECK(readers.answered == std::vector<std::uint64_t>{3, 2});
  rig.finish_all();
  CHECK(readers.answered == std::vector<std::uint64_t>{3, 2, 4, 1});
}

TEST_CASE("a segment that a change removes while it waits is not read") {
  FourSegments rig;
  rig.partition.hold = true;
  Readers readers(rig);
  for (const std::uint64_t strip : {1, 2, 3}) readers.read(strip, rig.bytes);
  rig.change(13);  // of the third
  const std::uint64_t before = rig.partition.reads;
  rig.finish_all();
  CHECK(readers.answered == std::vector<std::uint64_t>{1, 3, 2});
  CHECK(rig.partition.reads == before);
  CHECK(rig.view().damaged.load() == 0);
  CHECK(rig.view().segments.load() == 3);
  CHECK(rig.segments->table().memory_bytes() == 8 * kStrip);
  CHECK(rig.segments->idle());
}

TEST_CASE("a change comes while one piece of a segment is there and others are coming") {
  ThreePieces rig;
  rig.partition.hold = true;
  Readers readers(rig);
  for (const std::uint64_t strip : {0, 40, 78}) readers.read(strip, rig.bytes);
  rig.finish(0);
  CHECK(readers.answered == std::vector<std::uint64_t>{0});
  std::vector<Buffer> data;
  data.push_back(rig.buffer("!"));
  rig.segments->write(kObject, 0, std::move(data), Stability::kFileSync,
                      [](const Result<WriteResult>& result) { CHECK(result.has_value()); });
  readers.read(0, rig.bytes);  // from beneath, where the write waits for the removal
  CHECK(readers.answered == std::vector<std::uint64_t>{0, 0});
  REQUIRE(rig.partition.held() == 3);
  rig.finish(2);  // the removal
  rig.bytes[0] = '!';
  readers.read(0, rig.bytes);
  rig.finish_all();
  CHECK(readers.answered == std::vector<std::uint64_t>{0, 0, 0, 40, 78});
  CHECK(rig.view().damaged.load() == 0);
  CHECK(rig.view().segments.load() == 0);
  CHECK(rig.segments->table().memory_bytes() == 0);
  CHECK(rig.segments->idle());
}

}  // namespace
}  // namespace weft::ds
