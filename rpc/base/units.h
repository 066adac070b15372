// Sizes and durations with units: one dialect, of configuration files, options of commands and
// policies. docs/man/weft.1.scd, "SIZES AND DURATIONS", has it as a table.
//
// A decimal number, with a fraction or without, spaces or none, a unit or none: "1.5 GiB". A number
// has no leading zeros, which would be another number in Ganesha's own options.
//
// Threading: pure functions.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "rpc/base/error.h"

namespace weft {

// Units of 1024: none or B, K or KiB, to P or PiB. kInvalid otherwise, when it is no whole number
// of bytes, and beyond 2^62.
[[nodiscard]] Result<std::int64_t> parse_bytes(std::string_view text);
// As parse_bytes() reads it, in the largest unit that leaves nothing over: "64 MiB".
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);
// None or s, ms, min, h, d, y of 365 days. kInvalid otherwise, when it is no whole number of
// microseconds, and beyond 2^40 s.
[[nodiscard]] Result<std::chrono::microseconds> parse_duration(std::string_view text);
// parse_duration(), of whole seconds.
[[nodiscard]] Result<std::int64_t> parse_seconds(std::string_view text);

}  // namespace weft
