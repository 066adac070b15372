#include <xxhash.h>

#include <catch2/catch_test_macros.hpp>

#include "dataserver/parity/blocks.h"
#include "dataserver/parity/group_log.h"
#include "dataserver/parity/group_record.h"
#include "dataserver/parity/scrub_record.h"
#include "rpc/xdr/xdr.h"
#include "tests/hex.h"

using namespace weft;
using namespace weft::ds;

namespace {

const layout::ObjectId kObject{.fileid = 7, .generation = 2, .fsid = 3};

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> log_of(const std::vector<LogFrame>& frames) {
  auto bytes = group_log_header();
  for (const LogFrame& frame : frames) {
    const auto one = encode(frame);
    bytes.insert(bytes.end(), one.begin(), one.end());
  }
  return bytes;
}

}  // namespace

TEST_CASE("every byte of a stripe is at one place, and the parity goes round", "[parity]") {
  const ParityGeometry geometry{.members = 4, .chunk = 8192};
  for (std::uint64_t stripe = 0; stripe < 9; ++stripe) {
    CHECK(geometry.parity_member(stripe) == 3 - stripe % 4);
    CHECK(geometry.chunk_at(stripe, geometry.parity_member(stripe)) == 3);
    for (unsigned k = 0; k < 3; ++k) {
      const unsigned member = geometry.data_member(stripe, k);
      CHECK(geometry.chunk_at(stripe, member) == k);
      CHECK(geometry.logical(member, stripe * 8192 + 5) == stripe * 3 * 8192 + k * 8192 + 5);
    }
  }
  CHECK(geometry.stripes(0) == 0);
  CHECK(geometry.stripes(1) == 1);
  CHECK(geometry.stripes(3 * 8192) == 1);
  CHECK(geometry.stripes(3 * 8192 + 1) == 2);
}

TEST_CASE("a group record reads as written, and damage is refused", "[parity]") {
  GroupRecord record;
  record.geometry = {.members = 5, .chunk = 16384};
  record.epoch = 77;
  record.out = 3;
  record.everything = true;
  record.done = 12;
  record.place = {.folder = 9, .after = {.fileid = 4, .generation = 5, .fsid = 6}};
  const auto bytes = encode(record);
  const auto read = decode_group_record(bytes);
  REQUIRE(read.has_value());
  CHECK(read->geometry.members == 5);
  CHECK(read->geometry.chunk == 16384);
  CHECK(read->epoch == 77);
  CHECK(read->out == 3);
  CHECK(read->everything);
  CHECK(read->done == 12);
  CHECK(read->place == record.place);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    auto damaged = bytes;
    damaged[at] ^= std::byte{1};
    CHECK_FALSE(decode_group_record(damaged).has_value());
  }
}

TEST_CASE("a record of the version before reads as one that gave nothing up", "[parity]") {
  GroupRecord record{.geometry = {.members = 5, .chunk = 16384}, .epoch = 77, .out = 3};
  auto bytes = encode(record);
  bytes.resize(GroupRecord::kBytes2);
  bytes[7] = std::byte{2};
  xdr::Encoder sum;
  sum.u64(XXH64(bytes.data(), bytes.size() - 8, 0));
  std::ranges::copy(sum.bytes(), bytes.end() - 8);
  const auto read = decode_group_record(bytes);
  REQUIRE(read.has_value());
  CHECK(read->out == 3);
  CHECK(read->epoch == 77);
  CHECK(read->given_up == 0);
  CHECK_FALSE(read->lost);
}

TEST_CASE("the record of a scrub reads as written, and no damage passes", "[parity]") {
  const ScrubRecord record{
      .running = true,
      .only_tell = true,
      .ended = 1'700'000'000,
      .done = 12,
      .place = {.folder = 9, .after = kObject},
      .found = {.bytes = 1, .corrupt = 2, .parity = 3, .lost = 4, .failed = 5}};
  const auto bytes = encode(record);
  CHECK(bytes.size() == ScrubRecord::kBytes);
  const auto read = decode_scrub_record(bytes);
  REQUIRE(read.has_value());
  CHECK(read->running);
  CHECK(read->only_tell);
  CHECK(read->ended == record.ended);
  CHECK(read->done == 12);
  CHECK(read->place == record.place);
  CHECK(read->found == record.found);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    auto damaged = bytes;
    damaged[at] ^= std::byte{1};
    CHECK_FALSE(decode_scrub_record(damaged).has_value());
  }
  CHECK_FALSE(decode_scrub_record({}).has_value());
}

TEST_CASE("the records of a group are the bytes that they have always been", "[parity]") {
  const ListPlace place{.folder = 9, .after = {.fileid = 4, .generation = 5, .fsid = 6}};
  const GroupRecord group{.geometry = {.members = 5, .chunk = 16384},
                          .epoch = 77,
                          .out = 3,
                          .everything = true,
                          .done = 12,
                          .place = place,
                          .lost = true,
                          .given_up = 8};
  CHECK(test::hex(encode(group)) ==
        "57504752000000030000000500004000000000000000004d0000000300000003"
        "000000000000000c000000090000000000000000000000040000000500000006"
        "00000000000000088cd74ae252e82085");
  const ScrubRecord scrub{.running = true,
                          .ended = 1'700'000'000,
                          .done = 12,
                          .place = place,
                          .found = {.bytes = 1, .corrupt = 2, .parity = 3, .lost = 4, .failed = 5}};
  CHECK(test::hex(encode(scrub)) ==
        "57505353000000010000000100000000000000006553f100000000000000000c"
        "0000000900000000000000000000000400000005000000060000000000000001"
        "0000000000000002000000000000000300000000000000040000000000000005"
        "d190fb28819bcbb0");
}

TEST_CASE("a whole group record of a later version is not called damaged", "[parity]") {
  auto bytes = encode(GroupRecord{.geometry = {.members = 5, .chunk = 16384}});
  bytes[7] = std::byte{4};
  CHECK(decode_group_record(bytes).error() == Errc::kCorrupt);
  xdr::Encoder sum;
  sum.u64(XXH64(bytes.data(), bytes.size() - 8, 0));
  std::ranges::copy(sum.bytes(), bytes.end() - 8);
  CHECK(decode_group_record(bytes).error() == Errc::kNotSupported);
}

TEST_CASE("a log reads as written, up to where it is torn", "[parity]") {
  const std::vector<LogFrame> frames{
      LogDirty{kObject, 9},
      LogClean{kObject},
      LogCut{kObject, 1000, false},
      LogCutDone{kObject},
      LogContent{
          kObject, 5000, {{2, true, 4104, bytes_of("sum")}, {0, false, 0, bytes_of("12345")}}},
      LogPunch{kObject, 3, 8}};
  const auto bytes = log_of(frames);
  CHECK(decode_group_log(bytes)->frames == frames);
  CHECK(decode_group_log({})->frames.empty());
  for (std::size_t size = 16; size < bytes.size(); size += 3) {
    const auto torn = decode_group_log(std::span(bytes).first(size));
    REQUIRE(torn.has_value());
    CHECK(torn->frames.size() < frames.size());
    CHECK(torn->good_bytes <= size);
  }
}

TEST_CASE("a cut takes with it what was to be written behind it", "[parity]") {
  const ParityGeometry geometry{.members = 3, .chunk = 4096};
  const LogContent content{kObject,
                           50'000,
                           {{0, false, 0, bytes_of("kept")},
                            {1, false, 8192, bytes_of("gone")},
                            {2, true, kSumsAt + 8, bytes_of("12345678abcdefgh")}}};
  auto state = replay({content, LogPunch{kObject, 1, 9}, LogCut{kObject, 10'000}}, geometry);
  REQUIRE(state.redo.size() == 2);
  const auto& kept = std::get<LogContent>(state.redo[0]);
  CHECK(kept.size == 10'000);
  REQUIRE(kept.pieces.size() == 2);
  CHECK(kept.pieces[1].bytes == bytes_of("12345678"));
  CHECK(std::get<LogPunch>(state.redo[1]).end == 2);
  CHECK(state.cuts.contains(kObject));
  state = replay({content, LogCut{kObject, 0, true}, LogCutDone{kObject}, LogDirty{kObject, 4}},
                 geometry);
  CHECK(state.redo.empty());
  CHECK(state.cuts.empty());
  CHECK(state.dirty.at(kObject).contains(4));
}

TEST_CASE("checksums tell where a block belongs, and zeros are zeros", "[parity]") {
  alignas(32) std::array<std::byte, kParityBlock> block{};
  CHECK(sum_block(block, kObject, 1, 2) == 0);
  block[77] = std::byte{1};
  const auto sum = sum_block(block, kObject, 1, 2);
  CHECK(sum != 0);
  CHECK(sum != sum_block(block, kObject, 2, 2));
  CHECK(sum != sum_block(block, kObject, 1, 3));
  CHECK(sum != sum_block(block, {.fileid = 8, .generation = 2, .fsid = 3}, 1, 2));
  std::array<std::byte, 8> kept{};
  put_sum(kept, sum);
  CHECK(get_sum(kept) == sum);
  const auto header = decode_sum_header(encode(SumHeader{.sequence = 5, .size = 99}));
  REQUIRE(header.has_value());
  CHECK(header->sequence == 5);
  CHECK(header->size == 99);
  CHECK_FALSE(decode_sum_header(std::vector<std::byte>(SumHeader::kBytes)).has_value());
}
