// Checksums of an object's blocks: what one data server tells another, so that two copies are
// compared without their bytes crossing the network (docs/protocol.md, "Between data servers").
//
// A range of an object is cut into blocks of 4 KiB from its first byte; the last may be shorter,
// where the object or the range ends. A block of nothing but zeros is told as such, whether it is a
// hole or was written: both read the same. Of any other the sum is XXH3-128 of its bytes.
//
// With them is told how far the object has nothing but a hole behind a range of zeros, so that who
// compares need not ask for it.
//
// On the wire, big-endian: u64 end of the object | u64 first byte behind the range that may be
// other than zeros, all ones for none | u32 number of blocks | a bit for each block, the most
// significant of a byte first, 1 if it is not all zeros, and zeros up to a whole byte | 16 bytes
// (XXH3-128, canonical) for each block whose bit is 1. Nothing may follow.
//
// XXH3 is no cryptographic hash: who can choose bytes can make two blocks with one sum. He could
// make copies of his own file differ, and nothing else.
//
// Threading: plain values and pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "rpc/base/error.h"

namespace weft::ds {

constexpr std::size_t kSumBlock = 4096;
constexpr std::uint64_t kMaxSumRange = std::uint64_t{1} << 20;  // bytes asked about at once

using BlockSum = std::array<std::byte, 16>;
// nullopt: all zeros.
using BlockSums = std::vector<std::optional<BlockSum>>;

[[nodiscard]] BlockSums sum_blocks(std::span<const std::byte> bytes);

struct ObjectSums {
  std::uint64_t object_end = 0;
  std::uint64_t next_data = 0;  // no less than the range's end
  BlockSums blocks;             // of the range, as far as the object goes
  friend bool operator==(const ObjectSums&, const ObjectSums&) = default;
};

// How much of [offset, offset + count) is in an object that ends at object_end.
[[nodiscard]] std::uint64_t bytes_within(std::uint64_t object_end, std::uint64_t offset,
                                         std::uint64_t count);

[[nodiscard]] std::vector<std::byte> encode(const ObjectSums& sums);
// Of the range [offset, offset + count). kProtocol for anything encode() cannot have made of it.
// Precondition: count <= kMaxSumRange.
[[nodiscard]] Result<ObjectSums> decode_sums(std::span<const std::byte> bytes, std::uint64_t offset,
                                             std::uint64_t count);

// Blocks of a range that differ: [begin, end) in bytes from its first.
struct DiffRun {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool zeros = false;  // wanted there: a hole, rather than bytes to write
  friend bool operator==(const DiffRun&, const DiffRun&) = default;
};

// The runs of blocks in which `have` is not as `wanted`, as long as can be; `bytes` is what
// `wanted` is of. Blocks that `have` lacks at its end count as zeros.
[[nodiscard]] std::vector<DiffRun> differences(const BlockSums& wanted, const BlockSums& have,
                                               std::size_t bytes);

}  // namespace weft::ds
