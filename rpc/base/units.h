// Sizes and durations with units, as all configuration files have them.
//
// Threading: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "rpc/base/error.h"

namespace weft {

// "4096", "64 KiB", "1GiB", "1G": units of 1024. kInvalid otherwise, and beyond 2^62.
[[nodiscard]] Result<std::int64_t> parse_bytes(std::string_view text);
// As parse_bytes() reads it, in the largest unit that leaves nothing over: "64 MiB".
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);
// In seconds: "30", "30 s", "5min", "2 h", "7 d". kInvalid otherwise, and beyond 2^40.
[[nodiscard]] Result<std::int64_t> parse_seconds(std::string_view text);

}  // namespace weft
