// Why nobody can listen at an address: for libraries that only say that they could not.
//
// Threading: any thread.
#pragma once

#include <string>

namespace weft {

// Tries to have "host:port" ("[host]:port"), numeric, for a moment. The reason, as "Address already
// in use"; empty when it can be had, or is no such address.
[[nodiscard]] std::string listen_trouble(const std::string& address);

}  // namespace weft
