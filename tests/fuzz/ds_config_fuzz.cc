// Any text as a data server's configuration: no crash, and every error says where.
#include "dataserver/main/config.h"
#include "rpc/base/assert.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = weft::ds::parse_config(text, "fuzz.toml");
  WEFT_ASSERT(config.has_value() || config.error().text.starts_with("fuzz.toml:"));
  return 0;
}
