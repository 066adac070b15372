// What has to be done to make one run of bytes like another, in blocks.
//
// Threading: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::ds {

constexpr std::size_t kDiffBlock = 4096;

struct DiffRun {
  std::size_t begin = 0;  // of the wanted bytes
  std::size_t end = 0;
  bool zeros = false;  // wanted there: a hole, rather than bytes to write
  friend bool operator==(const DiffRun&, const DiffRun&) = default;
};

// The runs of `wanted` in which `have` differs, as long as can be. What `have` lacks at its end
// counts as zeros. Blocks begin at `wanted`'s first byte.
[[nodiscard]] std::vector<DiffRun> differences(std::span<const std::byte> wanted,
                                               std::span<const std::byte> have);

}  // namespace weft::ds
