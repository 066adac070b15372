// Any bytes as a store's identity: no crash, and what is accepted is exactly what we write.
#include "dataserver/store/store_directory.h"
#include "rpc/base/assert.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto identity = weft::ds::parse_identity(text);
  if (!identity) return 0;
  const auto again = weft::ds::parse_identity(weft::ds::format_identity(*identity));
  WEFT_ASSERT(again.has_value() && *again == *identity);
  return 0;
}
