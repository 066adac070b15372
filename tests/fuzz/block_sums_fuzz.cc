// Any bytes as another data server's checksums: no crash, and what is accepted is of the range and
// reads the same when written again. The first bytes choose the range.
#include <algorithm>
#include <cstdlib>

#include "dataserver/store/block_sums.h"

using namespace weft::ds;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 4) return 0;
  const std::uint64_t offset = data[0] * std::uint64_t{4096} + data[1];
  const std::uint64_t count = data[2] * std::uint64_t{1000} + data[3];
  const auto bytes = std::as_bytes(std::span(data + 4, size - 4));
  const auto sums = decode_sums(bytes, offset, count);
  if (!sums) return 0;
  const std::uint64_t within = bytes_within(sums->object_end, offset, count);
  if (sums->blocks.size() != (within + kSumBlock - 1) / kSumBlock) std::abort();
  if (!std::ranges::equal(encode(*sums), bytes)) std::abort();
  for (const DiffRun& run : differences(sums->blocks, {}, within)) {
    if (run.begin >= run.end || run.end > within) std::abort();
  }
  return 0;
}
