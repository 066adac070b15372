// Any bytes as a fencing log: no crash, and what is accepted reads the same when written again.
// An odd first byte has the header and, at the length of a frame that it chooses, magic number,
// count and checksum made right, so that the fuzzer gets past them.
#include <xxhash.h>

#include <vector>

#include "dataserver/store/fence_log.h"
#include "rpc/base/assert.h"
#include "rpc/xdr/xdr.h"

namespace {

// The input's entries as frames of 1 to 8, with what follows the last whole one as it is.
std::vector<std::byte> framed(std::span<const std::byte> input, std::size_t entries) {
  constexpr std::size_t kEntryBytes = 24;
  auto out = weft::ds::fence_log_header();
  while (input.size() >= entries * kEntryBytes) {
    weft::xdr::Encoder frame;
    frame.u32(0x57464e43);
    frame.u32(static_cast<std::uint32_t>(entries));
    frame.raw(input.first(entries * kEntryBytes));
    frame.u64(XXH64(frame.bytes().data(), frame.size(), 0));
    out.insert(out.end(), frame.bytes().begin(), frame.bytes().end());
    input = input.subspan(entries * kEntryBytes);
  }
  out.insert(out.end(), input.begin(), input.end());
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto bytes = std::as_bytes(std::span(data, size));
  std::vector<std::byte> made;
  if (size > 0 && data[0] % 2 == 1) {
    made = framed(bytes.subspan(1), 1 + data[0] / 2 % 8);
    bytes = made;
  }
  const auto log = weft::ds::decode_fence_log(bytes);
  if (!log) return 0;
  WEFT_ASSERT(log->good_bytes <= bytes.size());
  auto again = weft::ds::fence_log_header();
  const auto frames = weft::ds::encode_fences(log->fences);
  again.insert(again.end(), frames.begin(), frames.end());
  const auto log_again = weft::ds::decode_fence_log(again);
  WEFT_ASSERT(log_again.has_value() && log_again->fences == log->fences);
  return 0;
}
