#include "dataserver/parity/blocks.h"

#include <isa-l/mem_routines.h>
#include <isa-l/raid.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "rpc/base/assert.h"
#include "rpc/xdr/xdr.h"

namespace weft::ds {

namespace {

constexpr std::uint32_t kMagic = 0x57505348;
constexpr std::uint32_t kVersion = 1;
constexpr std::uint32_t kSumsBit = std::uint32_t{1} << 31;
constexpr std::size_t kSector = 512;  // what a disk writes whole
constexpr std::string_view kLostMark{"this block is lost: weft parity\n"};
static_assert(kSector % kLostMark.size() == 0);

// isa-l takes pointers to void, and changes only what the last one points to.
void* plain(const std::byte* bytes) { return const_cast<std::byte*>(bytes); }

}  // namespace

bool all_zeros(std::span<const std::byte> bytes) {
  return isal_zero_detect(plain(bytes.data()), bytes.size()) == 0;
}

void mark_lost(std::span<std::byte> block) {
  const auto mark = std::as_bytes(std::span(kLostMark));
  for (std::size_t at = 0; at < block.size(); at += mark.size()) {
    std::ranges::copy(mark, block.subspan(at).begin());
  }
}

bool has_lost_mark(std::span<const std::byte> block) {
  const auto mark = std::as_bytes(std::span(kLostMark));
  for (std::size_t sector = 0; sector < block.size(); sector += kSector) {
    bool whole = true;
    for (std::size_t at = sector; whole && at < sector + kSector; at += mark.size()) {
      whole = std::ranges::equal(block.subspan(at, mark.size()), mark);
    }
    if (whole) return true;
  }
  return false;
}

std::uint64_t sum_block(std::span<const std::byte> block, const layout::ObjectId& object,
                        unsigned member, std::uint64_t index) {
  if (all_zeros(block)) return 0;
  const std::uint64_t seed = std::hash<layout::ObjectId>{}(object) ^
                             (index * kMaxMembers + member) * 0x9E3779B97F4A7C15ULL;
  const std::uint64_t sum = XXH3_64bits_withSeed(block.data(), block.size(), seed);
  return std::clamp<std::uint64_t>(sum, 1, kLostSum - 1);
}

void put_sum(std::span<std::byte> out, std::uint64_t sum) {
  for (std::size_t i = 0; i < kSumBytes; ++i) {
    out[i] = static_cast<std::byte>(sum >> (56 - 8 * i));
  }
}

std::uint64_t get_sum(std::span<const std::byte> in) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kSumBytes; ++i) sum = sum << 8 | static_cast<std::uint64_t>(in[i]);
  return sum;
}

void xor_of(std::span<std::byte> into, std::span<const std::byte* const> of) {
  WEFT_ASSERT(!of.empty() && of.size() <= kMaxMembers);
  if (of.size() == 1) {  // of a group of two, which xor_gen does not take
    std::memcpy(into.data(), of[0], into.size());
    return;
  }
  std::array<void*, kMaxMembers + 1> vectors{};
  std::ranges::transform(of, vectors.begin(), plain);
  vectors[of.size()] = into.data();
  const int failed =
      ::xor_gen(static_cast<int>(of.size()) + 1, static_cast<int>(into.size()), vectors.data());
  WEFT_ASSERT(failed == 0);
}

void xor_with(std::span<std::byte> into, const std::byte* with) {
  const std::array<const std::byte*, 2> both{into.data(), with};
  xor_of(into, both);
}

std::vector<std::byte> encode(const SumHeader& header) {
  xdr::Encoder out;
  out.u32(kMagic);
  out.u32(kVersion);
  out.u64(header.sequence);
  out.u64(header.size);
  out.u64(XXH64(out.bytes().data(), out.size(), 0));
  return out.take();
}

std::optional<SumHeader> decode_sum_header(std::span<const std::byte> bytes) {
  if (bytes.size() != SumHeader::kBytes) return std::nullopt;
  xdr::Decoder in(bytes);
  const bool ours = in.u32() == kMagic && in.u32() == kVersion;
  SumHeader header;
  header.sequence = in.u64();
  header.size = in.u64();
  const bool whole = in.u64() == XXH64(bytes.data(), bytes.size() - 8, 0);
  if (!ours || !whole || header.size > std::uint64_t{1} << 62) return std::nullopt;
  return header;
}

layout::ObjectId sums_of(const layout::ObjectId& object) {
  layout::ObjectId sums = object;
  sums.generation |= kSumsBit;
  return sums;
}

layout::ObjectId data_of(const layout::ObjectId& sums) {
  layout::ObjectId object = sums;
  object.generation &= ~kSumsBit;
  return object;
}

bool is_sums(const layout::ObjectId& object) { return (object.generation & kSumsBit) != 0; }

}  // namespace weft::ds
