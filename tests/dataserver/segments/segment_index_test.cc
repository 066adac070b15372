#include "dataserver/segments/segment_index.h"

#include <catch2/catch_test_macros.hpp>

#include "dataserver/store/small_record.h"

namespace weft::ds {
namespace {

constexpr layout::ObjectId kOne{.fileid = 0x1a4, .generation = 1, .fsid = 3};

// The third has two pieces.
SegmentIndex sample() {
  SegmentIndex index{
      .next_number = 10,
      .segments = {{.number = 3, .strips = {{{kOne, 0}, 65536}, {{kOne, 8}, 10}}, .sums = {77}},
                   {.number = 8, .strips = {{{kOne, 5}, 1}}, .sums = {78}},
                   {.number = 9, .strips = {}, .sums = {79, 80}}}};
  for (std::uint64_t i = 0; i < kStripsInPiece + 1; ++i) {
    index.segments.back().strips.push_back({{kOne, 20 + i}, 65536});
  }
  return index;
}

Errc refused(const SegmentIndex& index) {
  const auto decoded = decode_segment_index(encode(index));
  return decoded ? Errc{} : decoded.error().code;
}

TEST_CASE("an index reads as it was written") {
  CHECK(decode_segment_index(encode(sample())).value() == sample());
  CHECK(decode_segment_index(encode({})).value() == SegmentIndex{});
}

TEST_CASE("an index has the last strips that an object can have") {
  auto index = sample();
  index.segments[0].strips[1].strip.index = (std::uint64_t{1} << 63) / kStrip - 1;
  CHECK(decode_segment_index(encode(index)).value() == index);
}

TEST_CASE("an index of which a bit is wrong, or the end is missing, is refused") {
  const auto whole = encode(sample());
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    auto bytes = whole;
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    CHECK_FALSE(decode_segment_index(bytes));
  }
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CHECK_FALSE(decode_segment_index(std::span(whole).first(size)));
  }
}

TEST_CASE("an index that nobody can have written is refused though its checksum is right") {
  auto index = sample();
  index.segments[1].number = 3;
  CHECK(refused(index) == Errc::kCorrupt);  // twice
  index = sample();
  index.next_number = 9;
  CHECK(refused(index) == Errc::kCorrupt);  // a number still to come
  index = sample();
  index.segments[0].number = 0;
  CHECK(refused(index) == Errc::kCorrupt);
  index = sample();
  index.segments[0].strips.clear();
  CHECK(refused(index) == Errc::kCorrupt);
  index = sample();
  index.segments[1].strips[0].strip.index = 8;
  CHECK(refused(index) == Errc::kCorrupt);  // a strip in two segments
  index = sample();
  index.segments[1].strips[0].bytes = 0;
  CHECK(refused(index) == Errc::kCorrupt);
  index.segments[1].strips[0].bytes = kStrip + 1;
  CHECK(refused(index) == Errc::kCorrupt);
  index = sample();
  index.segments[1].strips[0].strip.index = std::uint64_t{1} << 60;
  CHECK(refused(index) == Errc::kCorrupt);  // its offset would not be one
  index = sample();
  index.segments[1].strips.clear();
  for (std::uint64_t i = 0; i <= kStripsInSegment; ++i) {
    index.segments[1].strips.push_back({{kOne, 100 + i}, 1});
  }
  CHECK(refused(index) == Errc::kCorrupt);
}

}  // namespace
}  // namespace weft::ds
