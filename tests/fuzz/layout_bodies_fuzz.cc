// The files layout's bodies: whatever decodes encodes to the same bytes again.

#include <algorithm>
#include <cstdlib>

#include "layout/files_layout.h"

using namespace weft;
using namespace weft::layout;

namespace {

template <class T>
void check(const Result<T>& decoded, std::span<const std::byte> input, bool same_bytes) {
  if (!decoded) return;
  xdr::Encoder out;
  if (!encode(out, *decoded)) std::abort();
  if (same_bytes && out.size() != input.size()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  check(decode_files_layout(input), input, true);
  check(decode_files_device(input), input, false);  // an address may be written in several ways
  return 0;
}
