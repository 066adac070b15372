// Any bytes as a fencing log: no crash, and what is accepted reads the same when written again.
#include "dataserver/store/fence_log.h"
#include "rpc/base/assert.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto log = weft::ds::decode_fence_log(bytes);
  if (!log) return 0;
  WEFT_ASSERT(log->good_bytes <= size);
  auto again = weft::ds::fence_log_header();
  const auto frames = weft::ds::encode_fences(log->fences);
  again.insert(again.end(), frames.begin(), frames.end());
  const auto log_again = weft::ds::decode_fence_log(again);
  WEFT_ASSERT(log_again.has_value() && log_again->fences == log->fences);
  return 0;
}
