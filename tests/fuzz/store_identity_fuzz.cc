// Any bytes as a store's identity, and as its states: no crash, and what is accepted is exactly
// what we write.
#include <algorithm>

#include "dataserver/store/state_file.h"
#include "dataserver/store/store_directory.h"
#include "rpc/base/assert.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  if (const auto state = weft::ds::decode_states(bytes)) {
    const weft::ds::StateSlot slot = weft::ds::encode_state(*state);
    const auto written = bytes.subspan(state->generation % 2 * slot.size(), 32);
    WEFT_ASSERT(std::ranges::equal(written, std::span(slot).first(32)));
  }
  const auto identity = weft::ds::parse_identity(text);
  if (!identity) return 0;
  const auto again = weft::ds::parse_identity(weft::ds::format_identity(*identity));
  WEFT_ASSERT(again.has_value() && *again == *identity);
  return 0;
}
