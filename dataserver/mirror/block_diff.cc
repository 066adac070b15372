#include "dataserver/mirror/block_diff.h"

#include <algorithm>
#include <cstring>

namespace weft::ds {

namespace {

bool all_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

bool equal(std::span<const std::byte> wanted, std::span<const std::byte> have) {
  const std::size_t both = std::min(wanted.size(), have.size());
  if (both > 0 && std::memcmp(wanted.data(), have.data(), both) != 0) return false;
  return all_zero(wanted.subspan(both));
}

}  // namespace

std::vector<DiffRun> differences(std::span<const std::byte> wanted,
                                 std::span<const std::byte> have) {
  std::vector<DiffRun> runs;
  for (std::size_t at = 0; at < wanted.size(); at += kDiffBlock) {
    const std::size_t size = std::min(kDiffBlock, wanted.size() - at);
    const auto block = wanted.subspan(at, size);
    const auto mine = have.subspan(std::min(at, have.size()),
                                   std::min(size, have.size() - std::min(at, have.size())));
    if (equal(block, mine)) continue;
    const bool zeros = all_zero(block);
    if (!runs.empty() && runs.back().end == at && runs.back().zeros == zeros) {
      runs.back().end = at + size;
    } else {
      runs.push_back({at, at + size, zeros});
    }
  }
  return runs;
}

}  // namespace weft::ds
