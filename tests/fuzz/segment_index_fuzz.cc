// Any bytes as an index of segments, with their checksum put right, so that what is behind it is
// reached: no crash, and what is accepted reads the same when written again. An index that begins
// with a 0 byte is taken as it is.
#include <xxhash.h>

#include <algorithm>
#include <cstdlib>

#include "dataserver/segments/segment_index.h"
#include "rpc/xdr/xdr.h"

using namespace weft;
using namespace weft::ds;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  xdr::Encoder sealed;
  if (data[0] != 0) {
    sealed.u32(0x57534758);
    sealed.u32(2);
    sealed.fixed(bytes.first(bytes.size() / 4 * 4));
    sealed.u64(XXH64(sealed.bytes().data(), sealed.size(), 0));
    bytes = sealed.bytes();
  }
  const auto index = decode_segment_index(bytes);
  if (!index) return 0;
  if (!std::ranges::equal(encode(*index), bytes)) std::abort();
  return 0;
}
