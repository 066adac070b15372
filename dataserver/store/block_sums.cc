#include "dataserver/store/block_sums.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>

namespace weft::ds {
namespace {

constexpr std::size_t kHeadBytes = 20;

bool all_zero(std::span<const std::byte> bytes) {
  // Equal to itself moved by one byte, and the first is zero.
  return bytes.empty() || (bytes[0] == std::byte{0} &&
                           std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

BlockSum sum_of(std::span<const std::byte> bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  BlockSum sum;
  static_assert(sizeof(canonical.digest) == sizeof(sum));
  std::memcpy(sum.data(), canonical.digest, sizeof(sum));
  return sum;
}

template <class T>
void put(std::vector<std::byte>& out, T value) {
  for (std::size_t i = sizeof(T); i-- > 0;) out.push_back(static_cast<std::byte>(value >> 8 * i));
}

template <class T>
T get(std::span<const std::byte> bytes) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value << 8 | std::to_integer<T>(bytes[i]));
  }
  return value;
}

std::byte bit_of(std::size_t block) { return std::byte{0x80} >> (block % 8); }

}  // namespace

BlockSums sum_blocks(std::span<const std::byte> bytes) {
  BlockSums sums;
  sums.reserve((bytes.size() + kSumBlock - 1) / kSumBlock);
  for (std::size_t at = 0; at < bytes.size(); at += kSumBlock) {
    const auto block = bytes.subspan(at, std::min(kSumBlock, bytes.size() - at));
    if (all_zero(block)) {
      sums.emplace_back();
    } else {
      sums.emplace_back(sum_of(block));
    }
  }
  return sums;
}

std::uint64_t bytes_within(std::uint64_t object_end, std::uint64_t offset, std::uint64_t count) {
  return object_end <= offset ? 0 : std::min(count, object_end - offset);
}

std::vector<std::byte> encode(const ObjectSums& sums) {
  std::vector<std::byte> out;
  const std::size_t blocks = sums.blocks.size();
  out.reserve(kHeadBytes + (blocks + 7) / 8 + blocks * sizeof(BlockSum));
  put(out, sums.object_end);
  put(out, sums.next_data);
  put(out, static_cast<std::uint32_t>(blocks));
  out.resize(out.size() + (blocks + 7) / 8);
  for (std::size_t i = 0; i < blocks; ++i) {
    if (sums.blocks[i]) out[kHeadBytes + i / 8] |= bit_of(i);
  }
  for (const auto& sum : sums.blocks) {
    if (sum) out.insert(out.end(), sum->begin(), sum->end());
  }
  return out;
}

Result<ObjectSums> decode_sums(std::span<const std::byte> bytes, std::uint64_t offset,
                               std::uint64_t count) {
  if (bytes.size() < kHeadBytes) return fail(Errc::kProtocol, "checksums: no head");
  ObjectSums sums{.object_end = get<std::uint64_t>(bytes.first(8)),
                  .next_data = get<std::uint64_t>(bytes.subspan(8, 8))};
  if (sums.next_data < offset + count) {
    return fail(Errc::kProtocol, "checksums: data before the range's end");
  }
  const std::uint64_t within = bytes_within(sums.object_end, offset, count);
  const std::size_t blocks = (within + kSumBlock - 1) / kSumBlock;
  if (get<std::uint32_t>(bytes.subspan(16, 4)) != blocks) {
    return fail(Errc::kProtocol, "checksums: not of the range");
  }
  const std::size_t bit_bytes = (blocks + 7) / 8;
  auto rest = bytes.subspan(kHeadBytes);
  if (rest.size() < bit_bytes) return fail(Errc::kProtocol, "checksums: cut short");
  const auto bits = rest.first(bit_bytes);
  rest = rest.subspan(bit_bytes);
  sums.blocks.reserve(blocks);
  for (std::size_t i = 0; i < bit_bytes * 8; ++i) {
    const bool set = (bits[i / 8] & bit_of(i)) != std::byte{0};
    if (set && (i >= blocks || rest.size() < sizeof(BlockSum))) {
      return fail(Errc::kProtocol, "checksums: cut short, or of no block");
    }
    if (i >= blocks) continue;
    auto& sum = sums.blocks.emplace_back();
    if (!set) continue;
    std::ranges::copy(rest.first(sizeof(BlockSum)), sum.emplace().begin());
    rest = rest.subspan(sizeof(BlockSum));
  }
  if (!rest.empty()) return fail(Errc::kProtocol, "checksums: more than of the range");
  return sums;
}

std::vector<DiffRun> differences(const BlockSums& wanted, const BlockSums& have,
                                 std::size_t bytes) {
  std::vector<DiffRun> runs;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto mine = i < have.size() ? have[i] : std::nullopt;
    if (wanted[i] == mine) continue;
    const std::size_t begin = i * kSumBlock;
    const std::size_t end = std::min(begin + kSumBlock, bytes);
    const bool zeros = !wanted[i];
    if (!runs.empty() && runs.back().end == begin && runs.back().zeros == zeros) {
      runs.back().end = end;
    } else {
      runs.push_back({begin, end, zeros});
    }
  }
  return runs;
}

}  // namespace weft::ds
