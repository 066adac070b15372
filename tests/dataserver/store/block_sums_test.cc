#include "dataserver/store/block_sums.h"

#include <rapidcheck.h>

#include <catch2/catch_test_macros.hpp>
#include <string>

namespace weft::ds {
namespace {

BlockSums sums(const std::string& text) { return sum_blocks(std::as_bytes(std::span(text))); }

const std::string a(kSumBlock, 'a');
const std::string b(kSumBlock, 'b');
const std::string zero(kSumBlock, '\0');

}  // namespace

TEST_CASE("differences are found by blocks, and zeros told apart") {
  const auto runs = [](const std::string& wanted, const std::string& have) {
    return differences(sums(wanted), sums(have), wanted.size());
  };
  CHECK(runs(a + b, a + b).empty());
  CHECK(runs(a + a + b, a + b + b) == std::vector<DiffRun>{{4096, 8192, false}});
  CHECK(runs(a + zero + zero, b) == std::vector<DiffRun>{{0, 4096, false}});
  CHECK(runs(zero + zero + a, a + a + b) ==
        std::vector<DiffRun>{{0, 8192, true}, {8192, 12288, false}});
  CHECK(runs("xyz", "") == std::vector<DiffRun>{{0, 3, false}});
  CHECK(runs(a + "xyz", a + "xyzz") == std::vector<DiffRun>{{4096, 4099, false}});
  CHECK(runs("", a).empty());
}

TEST_CASE("checksums come back equal") {
  const std::string text = a + zero + b + std::string(100, '\0') + "x";
  const ObjectSums made{
      .object_end = 1000 + text.size(), .next_data = 1000 + kMaxSumRange, .blocks = sums(text)};
  const auto bytes = encode(made);
  CHECK(bytes.size() == 20 + 1 + 3 * 16);
  const auto read = decode_sums(bytes, 1000, kMaxSumRange);
  REQUIRE(read);
  CHECK(*read == made);
  const ObjectSums none{.object_end = 5, .next_data = 105};
  CHECK(decode_sums(encode(none), 5, 100)->blocks.empty());
  CHECK(decode_sums(encode(none), 6, 100).error() == Errc::kProtocol);
}

TEST_CASE("checksums that are not of the range are refused") {
  const ObjectSums made{
      .object_end = 9000, .next_data = 9100, .blocks = sums(a + zero + std::string(808, 'c'))};
  const auto bytes = encode(made);
  REQUIRE(decode_sums(bytes, 0, 9000));
  CHECK(decode_sums(bytes, 0, 8192).error() == Errc::kProtocol);
  CHECK(decode_sums(bytes, 9000, 100).error() == Errc::kProtocol);
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    CHECK(decode_sums(std::span(bytes).first(cut), 0, 9000).error() == Errc::kProtocol);
  }
  auto longer = bytes;
  longer.push_back(std::byte{0});
  CHECK(decode_sums(longer, 0, 9000).error() == Errc::kProtocol);
  auto bits = bytes;
  bits[20] |= std::byte{1};  // of an eighth block
  CHECK(decode_sums(bits, 0, 9000).error() == Errc::kProtocol);
  auto fewer = bytes;
  fewer[20] = std::byte{0x80};
  CHECK(decode_sums(fewer, 0, 9000).error() == Errc::kProtocol);
}

TEST_CASE("any bytes: what differs is what the blocks say") {
  const bool held = rc::check("blocks", [] {
    const auto length = *rc::gen::inRange<std::size_t>(1, 40'000);
    std::string wanted(length, '\0');
    for (std::size_t i = 0; i < length; i += 1 + i % 97)
      wanted[i] = static_cast<char>(i / 4096 % 3);
    std::string have = wanted;
    const auto changes =
        *rc::gen::container<std::vector<std::size_t>>(rc::gen::inRange<std::size_t>(0, length));
    for (const std::size_t at : changes) have[at] ^= 1;
    for (const DiffRun& run : differences(sums(wanted), sums(have), length)) {
      RC_ASSERT(run.begin < run.end && run.end <= length);
      have.replace(run.begin, run.end - run.begin, wanted, run.begin, run.end - run.begin);
    }
    RC_ASSERT(have == wanted);
  });
  CHECK(held);
}

}  // namespace weft::ds
