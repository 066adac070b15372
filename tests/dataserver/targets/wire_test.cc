// The bytes of what data servers and targets in the field say to each other: whoever changes one
// of these changes the protocol, and kTargetVersions with it.
#include <catch2/catch_test_macros.hpp>

#include "dataserver/targets/messages.h"

namespace weft::ds {
namespace {

std::string hex_of(const auto& message) {
  constexpr char kDigits[] = "0123456789abcdef";
  xdr::Encoder out;
  encode(out, message);
  std::string text;
  for (const std::byte byte : out.bytes()) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

template <std::size_t kSize>
std::array<std::byte, kSize> bytes(std::uint8_t seed) {
  std::array<std::byte, kSize> made{};
  for (std::size_t i = 0; i < kSize; ++i) made[i] = static_cast<std::byte>(seed + i);
  return made;
}

TargetHello hello() {
  return {
      .space = bytes<16>(1), .boot = 2, .link = 3, .nonce = bytes<16>(4), .proof = bytes<32>(5)};
}

TargetRequest request(TargetOp op) {
  return {.op = op,
          .tag = 77,
          .object = {.fileid = 0x1122334455667788, .generation = 2, .fsid = 3},
          .offset = 4096,
          .size = 8,
          .stability = Stability::kDataSync,
          .lent = op == TargetOp::kWrite,
          .uncached = true,
          .descriptor = true};
}

TargetResponse response(TargetOp op) {
  return {.op = op,
          .tag = 77,
          .verifier = 6,
          .object_end = 100,
          .size = 50,
          .at = 4,
          .descriptor = true,
          .lent = true,
          .stat = {.size = 7, .allocated = 8, .mtime_ns = -9},
          .usage = {.capacity_bytes = 10, .free_bytes = 11, .objects = 12},
          .list = {.objects = {{.fileid = 1, .generation = 2, .fsid = 3}, {.fileid = 4}},
                   .next = {.folder = 7, .after = {.fileid = 5}},
                   .more = true},
          .store = bytes<16>(13),
          .objects = 14,
          .proof = bytes<32>(15)};
}

TEST_CASE("the bytes of a challenge") {
  const TargetChallenge challenge{
      .nonce = bytes<16>(1), .machine = bytes<16>(2), .socket = "/run/weft/target.sock"};
  CHECK(hex_of(challenge) ==
        "000000060102030405060708090a0b0c0d0e0f1002030405060708090a0b0c0d0e0f101100000015"
        "2f72756e2f776566742f7461726765742e736f636b000000");
}

TEST_CASE("the bytes of requests") {
  CHECK(hex_of(TargetRequest{.op = TargetOp::kHello, .hello = hello()}) ==
        "0000000100000000000000000102030405060708090a0b0c0d0e0f10000000000000000200000003"
        "0405060708090a0b0c0d0e0f1011121305060708090a0b0c0d0e0f101112131415161718191a1b1c"
        "1d1e1f2021222324");
  CHECK(hex_of(request(TargetOp::kRead)) ==
        "00000002000000000000004d11223344556677880000000200000003000000000000100000000000"
        "0000000800000001000000000000000100000001");
  CHECK(hex_of(request(TargetOp::kWrite)) ==
        "00000003000000000000004d11223344556677880000000200000003000000000000100000000000"
        "00000008000000010000000100000001");
  CHECK(hex_of(request(TargetOp::kCommit)) ==
        "00000004000000000000004d11223344556677880000000200000003000000000000100000000000"
        "000000080000000100000000");
  CHECK(hex_of(request(TargetOp::kTruncate)) ==
        "00000005000000000000004d11223344556677880000000200000003000000000000100000000000"
        "000000080000000100000000");
  CHECK(hex_of(request(TargetOp::kRemove)) ==
        "00000006000000000000004d11223344556677880000000200000003000000000000100000000000"
        "000000080000000100000000");
  CHECK(hex_of(request(TargetOp::kStat)) ==
        "00000007000000000000004d11223344556677880000000200000003000000000000100000000000"
        "000000080000000100000000");
  CHECK(hex_of(request(TargetOp::kAllocate)) ==
        "00000008000000000000004d11223344556677880000000200000003000000000000100000000000"
        "000000080000000100000000");
  CHECK(hex_of(request(TargetOp::kPunch)) ==
        "00000009000000000000004d11223344556677880000000200000003000000000000100000000000"
        "000000080000000100000000");
  CHECK(hex_of(request(TargetOp::kUsage)) ==
        "0000000a000000000000004d11223344556677880000000200000003000000000000100000000000"
        "000000080000000100000000");
  CHECK(hex_of(request(TargetOp::kList)) ==
        "0000000b000000000000004d11223344556677880000000200000003000000000000100000000000"
        "000000080000000100000000");
  CHECK(hex_of(request(TargetOp::kNextData)) ==
        "0000000c000000000000004d11223344556677880000000200000003000000000000100000000000"
        "000000080000000100000000");
  CHECK(hex_of(TargetRequest{.op = TargetOp::kKeys, .tag = 77}) ==
        "0000000d000000000000004d00000000000000000000000000000000000000000000000000000000"
        "000000000000000000000000");
  CHECK(hex_of(TargetRequest{.op = TargetOp::kAbout, .tag = 77}) ==
        "0000000e000000000000004d00000000000000000000000000000000000000000000000000000000"
        "000000000000000000000000");
  CHECK(hex_of(TargetRequest{.op = TargetOp::kNote, .tag = 77, .offset = 5, .size = 6}) ==
        "0000000f000000000000004d00000000000000000000000000000000000000000000000500000000"
        "000000060000000000000000");
}

TEST_CASE("the bytes of responses") {
  TargetResponse welcome = response(TargetOp::kHello);
  welcome.instance = 0x77;
  welcome.noted = {.generation = 5, .boot = 6};
  welcome.tag = 9;
  CHECK(hex_of(welcome) ==
        "0000000100000000000000090000000000000000000000060d0e0f101112131415161718191a1b1c"
        "0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e000000000000000e");
  welcome.tag = 10;
  CHECK(hex_of(welcome) ==
        "00000001000000000000000a0000000000000000000000060d0e0f101112131415161718191a1b1c"
        "0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e000000000000000e"
        "000000000000007700000000000000050000000000000006");
  CHECK(hex_of(response(TargetOp::kRead)) ==
        "00000002000000000000004d00000000000000000000000600000000000000640000000000000032"
        "00000000000000040000000100000001");
  CHECK(hex_of(response(TargetOp::kWrite)) ==
        "00000003000000000000004d000000000000000000000006000000000000006400000001");
  CHECK(hex_of(response(TargetOp::kCommit)) == "00000004000000000000004d000000000000000000000006");
  CHECK(hex_of(response(TargetOp::kTruncate)) ==
        "00000005000000000000004d00000000000000000000000600000000000000070000000000000008"
        "fffffffffffffff7");
  CHECK(hex_of(response(TargetOp::kRemove)) == "00000006000000000000004d000000000000000000000006");
  CHECK(hex_of(response(TargetOp::kStat)) ==
        "00000007000000000000004d00000000000000000000000600000000000000070000000000000008"
        "fffffffffffffff7");
  CHECK(hex_of(response(TargetOp::kAllocate)) ==
        "00000008000000000000004d000000000000000000000006");
  CHECK(hex_of(response(TargetOp::kPunch)) == "00000009000000000000004d000000000000000000000006");
  CHECK(hex_of(response(TargetOp::kUsage)) ==
        "0000000a000000000000004d000000000000000000000006000000000000000a000000000000000b"
        "000000000000000c");
  CHECK(hex_of(response(TargetOp::kList)) ==
        "0000000b000000000000004d00000000000000000000000600000001000000070000000000000005"
        "00000000000000000000000200000000000000010000000200000003000000000000000400000000"
        "00000000");
  TargetResponse next = response(TargetOp::kNextData);
  next.run = {.begin = 0x1000, .end = 0x2000};
  CHECK(hex_of(next) ==
        "0000000c000000000000004d00000000000000000000000600000000000010000000000000002000");
  TargetResponse keys = response(TargetOp::kKeys);
  keys.keys = {1, 0xfffffffffffffffe};
  CHECK(hex_of(keys) ==
        "0000000d000000000000004d0000000000000000000000060000000200000000000000"
        "01fffffffffffffffe");
  TargetResponse about = response(TargetOp::kAbout);
  about.about = {.version = "1.2", .options = {{{"store.path", "/t", ""}}}};
  CHECK(hex_of(about) ==
        "0000000e000000000000004d00000000000000000000000600000003312e3200000000010000000a"
        "73746f72652e706174680000000000022f74000000000000");
  CHECK(hex_of(response(TargetOp::kNote)) == "0000000f000000000000004d000000000000000000000006");
  TargetResponse refused = response(TargetOp::kWrite);
  refused.good = false;
  refused.error = Errc::kNoSpace;
  refused.text = std::string(600, 'x');
  CHECK(hex_of(refused).substr(0, 40) == "00000003000000000000004d0000000500000200");
  CHECK(hex_of(refused).size() == 2 * (20 + 512));
}

}  // namespace
}  // namespace weft::ds
