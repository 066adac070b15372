#include "rpc/control/messages.h"

namespace weft::rpc::control {

std::string to_string(const Uuid& uuid) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kDigits[std::to_integer<unsigned>(uuid[i]) >> 4];
    text += kDigits[std::to_integer<unsigned>(uuid[i]) & 15];
  }
  return text;
}

StoreState next_state(const StoreState& state, std::uint64_t boot) {
  if (state.generation > 0 && state.boot == boot) return state;
  return {state.generation + 1, boot};
}

bool is_well_striped(const Resync& request) {
  if (request.stripe_unit == 0) return true;
  return request.server < request.servers &&
         layout::Striping::make(request.stripe_unit, request.servers, request.first_index)
             .has_value();
}

bool is_well_striped(const Share& share) {
  return share.server < share.servers &&
         layout::Striping::make(share.stripe_unit, share.servers, share.first_index).has_value();
}

bool has_few_units(const AllocateShare& request) {
  const Range& range = request.range;
  if (!is_well_striped(request.share) || range.offset > layout::kMaxFileSize ||
      range.length > layout::kMaxFileSize - range.offset) {
    return false;
  }
  const std::uint64_t cycle = std::uint64_t{request.share.stripe_unit} * request.share.servers;
  return range.length / cycle < AllocateShare::kMaxUnits;
}

}  // namespace weft::rpc::control
