// The flexible files layout's bodies and reports: whatever decodes encodes to what decodes to the
// same, in as many bytes.

#include <algorithm>
#include <cstdlib>

#include "layout/flex_report.h"

using namespace weft;
using namespace weft::layout;

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  if (const auto layout = decode_flex_layout(input)) {
    xdr::Encoder out;
    require(encode(out, *layout, true).has_value());
    require(out.size() == size && out.size() == flex_layout_bytes(*layout));
    require(decode_flex_layout(out.bytes()).value() == *layout);
  }
  if (const auto device = decode_flex_device(input)) {
    xdr::Encoder out;
    require(encode(out, *device).has_value());
    require(decode_flex_device(out.bytes()).value() == *device);
  }
  if (const auto report = decode_flex_return(input); report && size != 0) {
    xdr::Encoder out;
    encode(out, *report);
    require(out.size() == size && decode_flex_return(out.bytes()).value() == *report);
  }
  return 0;
}
