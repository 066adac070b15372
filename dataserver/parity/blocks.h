// Blocks of 4 KiB: their checksums, their XOR, and the header of a member's checksum object.
//
// A checksum is XXH3-64 of the block, seeded with where the block belongs (object, member, block of
// its data object), so that a block in the wrong place does not pass. A block of zeros has the
// checksum 0, whether it was written or is a hole; any other sum that comes out as 0 is kept as 1.
// All ones is of no block, and says that the block is lost: nobody knows what it was. A row has
// that of two blocks or more, of which one is its parity, or beside it a block that is damaged, so
// that none of them can be computed; one that comes out as all ones is kept as one less. The bytes
// of a lost block are marked too, so that a crash in the middle of a write over it is seen.
//
//   checksum object   header, then from byte 4096 on u64 for each block of the data object
//   header            u32 0x57505348 | u32 version 1 | u64 sequence | u64 size of the object |
//                     u64 XXH64 of all before
//
// Big-endian. All members hold the same header; of several that differ after a crash, the one with
// the highest sequence counts.
//
// Threading: pure functions.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "dataserver/parity/geometry.h"
#include "layout/object_id.h"
#include "rpc/base/error.h"

namespace weft::ds {

constexpr std::uint64_t kLostSum = ~std::uint64_t{0};

// XXH3 is no cryptographic hash: it finds what breaks by itself, not what somebody made.
[[nodiscard]] std::uint64_t sum_block(std::span<const std::byte> block,
                                      const layout::ObjectId& object, unsigned member,
                                      std::uint64_t index);
// Bytes of a checksum object for a run of blocks, and back.
void put_sum(std::span<std::byte> out, std::uint64_t sum);
[[nodiscard]] std::uint64_t get_sum(std::span<const std::byte> in);

// into = XOR of `of`, or into ^= each of `with`. All of one size, which is a multiple of 4096, and
// begin at a multiple of 32 bytes.
void xor_of(std::span<std::byte> into, std::span<const std::byte* const> of);
void xor_with(std::span<std::byte> into, const std::byte* with);
[[nodiscard]] bool all_zeros(std::span<const std::byte> bytes);
// Fills a block that is lost with a mark, and whether some sector of one still has it.
void mark_lost(std::span<std::byte> block);
[[nodiscard]] bool has_lost_mark(std::span<const std::byte> block);

struct SumHeader {
  static constexpr std::size_t kBytes = 32;
  std::uint64_t sequence = 0;
  std::uint64_t size = 0;
};
[[nodiscard]] std::vector<std::byte> encode(const SumHeader& header);
// Nothing when the bytes are no header.
[[nodiscard]] std::optional<SumHeader> decode_sum_header(std::span<const std::byte> bytes);

// The object that has the checksums of this one, at each member. Generations of objects stay below
// 2^31.
[[nodiscard]] layout::ObjectId sums_of(const layout::ObjectId& object);
[[nodiscard]] layout::ObjectId data_of(const layout::ObjectId& sums);
[[nodiscard]] bool is_sums(const layout::ObjectId& object);

}  // namespace weft::ds
