// The address of all interfaces, 0.0.0.0 or [::]: one can listen there, and nobody can reach it.
//
// Threading: pure functions.
#pragma once

#include <algorithm>

#include "layout/net_address.h"

namespace weft::layout {

// Whatever its port is.
[[nodiscard]] inline bool is_wildcard(const NetAddress& address) {
  return std::ranges::all_of(address.ip, [](std::uint8_t byte) { return byte == 0; });
}

}  // namespace weft::layout
