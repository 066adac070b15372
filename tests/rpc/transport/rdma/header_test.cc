// Vectors are written by hand from the grammar of RFC 8166 section 4.1 and of RFC 8797 section 4.
#include "rpc/transport/rdma/header.h"

#include <catch2/catch_test_macros.hpp>
#include <string_view>

#include "tests/hex.h"

using namespace weft;
using namespace weft::rpc::rdma;

namespace {

std::vector<std::byte> from_hex(std::string_view digits) {
  std::vector<std::byte> out;
  unsigned value = 0;
  bool half = false;
  for (const char digit : digits) {
    if (digit == ' ') continue;
    value = value << 4 | static_cast<unsigned>(digit <= '9' ? digit - '0' : digit - 'a' + 10);
    if (half) out.push_back(static_cast<std::byte>(value));
    half = !half;
  }
  return out;
}

Result<Chunks> decode(std::string_view digits) {
  const auto bytes = from_hex(digits);
  xdr::Decoder in(bytes);
  return decode_chunks(in);
}

std::string encoded(const auto& value) {
  xdr::Encoder out;
  encode(out, value);
  return test::hex(out.bytes());
}

std::string without_spaces(std::string_view digits) { return test::hex(from_hex(digits)); }

// A segment of every kind of chunk.
constexpr std::string_view kEverything =
    "00000001 00000000 0000a001 00000100 0000000000001000"  // read, position 0
    "00000001 00000094 0000a002 00001000 0000000000002000"  // read, position 148
    "00000001 00000094 0000a003 00000200 00000000fffff000"  // its second segment
    "00000000"
    "00000001 00000002 0000b001 00001000 0000000000004000 0000b002 00000001 0000000000008000"
    "00000000"
    "00000001 00000001 0000c001 00002000 8000000000000000";

Chunks everything() {
  return {.reads = {{.position = 0, .chunk = {{{0xa001, 0x100, 0x1000}}}},
                    {.position = 148,
                     .chunk = {{{0xa002, 0x1000, 0x2000}, {0xa003, 0x200, 0xffff'f000}}}}},
          .writes = {{{{0xb001, 0x1000, 0x4000}, {0xb002, 1, 0x8000}}}},
          .reply = Chunk{{{0xc001, 0x2000, 0x8000'0000'0000'0000}}}};
}

// As many read segments of one position, each of 24 bytes.
std::string read_segments(std::size_t count) {
  std::string digits;
  for (std::size_t i = 0; i < count; ++i) {
    digits += "00000001 00000004 00000007 00000010 0000000000000000";
  }
  return digits + "00000000 00000000 00000000";
}

}  // namespace

TEST_CASE("a header's start has the call's number, the version, credits and what follows") {
  constexpr std::string_view kWire = "11223344 00000001 00000020 00000001";
  const Start start{.xid = 0x1122'3344, .version = 1, .credits = 32, .procedure = 1};
  const auto bytes = from_hex(kWire);
  xdr::Decoder in(bytes);
  CHECK(decode_start(in).value() == start);
  CHECK(in.position() == kStartBytes);
  CHECK(encoded(start) == without_spaces(kWire));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    xdr::Decoder cut(std::span(bytes).first(size));
    CHECK(decode_start(cut).error() == Errc::kProtocol);
  }
}

TEST_CASE("chunk lists are read as they are written") {
  CHECK(decode(kEverything).value() == everything());
  CHECK(encoded(everything()) == without_spaces(kEverything));
  CHECK(encoded_size(everything()) == from_hex(kEverything).size());
  CHECK(everything().reads[1].chunk.size() == 0x1200);

  constexpr std::string_view kNone = "00000000 00000000 00000000";
  CHECK(decode(kNone).value() == Chunks{});
  CHECK(encoded(Chunks{}) == without_spaces(kNone));
  CHECK(encoded_size(Chunks{}) == 12);
}

TEST_CASE("a Write or Reply chunk without segments, and a segment without bytes, are chunks") {
  const auto chunks = decode(
      "00000000 00000001 00000000 00000000 00000001 00000001"
      "00000001 00000000 0000000000000000");
  REQUIRE(chunks);
  REQUIRE(chunks->writes.size() == 1);
  CHECK(chunks->writes[0].segments.empty());
  REQUIRE(chunks->reply);
  CHECK(chunks->reply->size() == 0);
}

TEST_CASE("chunk lists that are cut anywhere are refused") {
  const auto bytes = from_hex(kEverything);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    xdr::Decoder in(std::span(bytes).first(size));
    const auto chunks = decode_chunks(in);
    REQUIRE_FALSE(chunks);
    CHECK(chunks.error() == Errc::kProtocol);
  }
}

TEST_CASE("what is no boolean in front of a list's item is refused") {
  CHECK(decode("00000002 00000000 00000000").error() == Errc::kProtocol);
  CHECK(decode("00000000 00000000 80000000").error() == Errc::kProtocol);
}

TEST_CASE("a segment beyond the last address is refused") {
  const auto last = [](std::string_view length) {
    return decode("00000000 00000000 00000001 00000001 00000007" + std::string(length) +
                  "fffffffffffffff0");
  };
  CHECK(last("0000000f").has_value());
  CHECK(last("00000010").error() == Errc::kProtocol);
}

TEST_CASE("read segments whose positions go back are refused") {
  const auto two = [](std::string_view first, std::string_view second) {
    constexpr std::string_view kSegment = "00000007 00000010 0000000000000000";
    return decode("00000001" + std::string(first) + std::string(kSegment) + "00000001" +
                  std::string(second) + std::string(kSegment) + "00000000 00000000 00000000");
  };
  CHECK(two("00000004", "00000008")->reads.size() == 2);
  CHECK(two("00000004", "00000004")->reads.size() == 1);
  CHECK(two("00000008", "00000004").error() == Errc::kProtocol);
}

TEST_CASE("too many segments or chunks are refused, however many are announced") {
  CHECK(decode(read_segments(kMaxSegments))->reads[0].chunk.segments.size() == kMaxSegments);
  CHECK(decode(read_segments(kMaxSegments + 1)).error() == Errc::kTooLarge);
  // Four thousand million segments of which none comes.
  CHECK(decode("00000000 00000001 ffffffff").error() == Errc::kProtocol);
  // A second Write chunk.
  CHECK(decode("00000000 00000001 00000000 00000001 00000000 00000000 00000000").error() ==
        Errc::kTooLarge);
  // A third position.
  std::string positions;
  for (const char* position : {"00000000", "00000004", "00000008"}) {
    positions += "00000001" + std::string(position) + "00000007 00000010 0000000000000000";
  }
  CHECK(decode(positions + "00000000 00000000 00000000").error() == Errc::kTooLarge);
}

TEST_CASE("an error says that the version, or that a chunk is refused") {
  CHECK(encoded(Refused::kVersion) == "000000010000000100000001");
  CHECK(encoded(Refused::kChunk) == "00000002");
  const auto refused = [](std::string_view digits) {
    const auto bytes = from_hex(digits);
    xdr::Decoder in(bytes);
    return decode_refused(in);
  };
  CHECK(refused("00000001 00000001 00000002").value() == Refused::kVersion);
  CHECK(refused("00000002").value() == Refused::kChunk);
  CHECK(refused("00000001 00000001").error() == Errc::kProtocol);
  CHECK(refused("00000003").error() == Errc::kProtocol);
  CHECK(refused("").error() == Errc::kProtocol);
}

TEST_CASE("private data says what each side sends and takes inline") {
  // 4 KiB each way, and remote invalidation; padding behind.
  const auto bytes = from_hex("f6ab0e18 01 01 03 03 0000");
  const PrivateData both{.send_bytes = 4096, .receive_bytes = 4096, .remote_invalidation = true};
  CHECK(decode_private_data(bytes) == both);
  CHECK(test::hex(encode(both)) == "f6ab0e1801010303");
  CHECK(test::hex(encode(PrivateData{.send_bytes = 1024, .receive_bytes = 256 * 1024})) ==
        "f6ab0e18010000ff");
  CHECK(decode_private_data(from_hex("f6ab0e18 01 00 00 ff")) ==
        PrivateData{.send_bytes = 1024, .receive_bytes = 262'144});
}

TEST_CASE("private data of something else, or cut, says nothing") {
  CHECK_FALSE(decode_private_data({}));
  CHECK_FALSE(decode_private_data(from_hex("f6ab0e18 01 01 03")));
  CHECK_FALSE(decode_private_data(from_hex("f6ab0e19 01 01 03 03")));
  CHECK_FALSE(decode_private_data(from_hex("f6ab0e18 02 01 03 03")));
}
