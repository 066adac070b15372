// Checksums of blocks as a SummedStore keeps them (sum_table.h).
//
// Threading: pure functions.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "dataserver/parity/blocks.h"
#include "dataserver/sums/sum_table.h"
#include "rpc/base/buffer.h"
#include "rpc/base/error.h"

namespace weft::ds {

// Of a block that may end early, where its object does: as if zeros followed.
[[nodiscard]] inline std::uint64_t kept_sum(std::span<const std::byte> block,
                                            const layout::ObjectId& object, std::uint64_t index) {
  std::array<std::byte, kParityBlock> whole;
  if (block.size() < whole.size()) {
    std::fill(std::ranges::copy(block, whole.begin()).out, whole.end(), std::byte{0});
    block = whole;
  }
  const std::uint64_t sum = sum_block(block, object, 0, index);
  return sum == 0 ? kLostSum : sum;
}

// Whatever the bytes are. What is not a whole one at the end says nothing.
[[nodiscard]] inline std::vector<std::uint64_t> sums_of_bytes(std::span<const std::byte> bytes) {
  std::vector<std::uint64_t> sums(bytes.size() / kSumBytes);
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = get_sum(bytes.subspan(i * kSumBytes, 8));
  return sums;
}

// What is in one piece of memory stays there; what is not is copied to `room`.
[[nodiscard]] inline Result<std::span<const std::byte>> bytes_of(const Payload& payload,
                                                                 std::vector<std::byte>& room) {
  if (payload.pieces().size() == 1) {
    const auto* buffer = std::get_if<Buffer>(&payload.pieces().front());
    if (buffer != nullptr) return buffer->span();
  }
  auto copied = payload.flatten();
  if (!copied) return pass(copied);
  room = std::move(*copied);
  return std::span<const std::byte>(room);
}

}  // namespace weft::ds
