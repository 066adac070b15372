// Sizes and durations as options of commands (rpc/base/units.h). What is parsed is the number: "2h"
// becomes 7200.
//
// Threading: one thread.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace weft::cli {

[[nodiscard]] CLI::Validator seconds();
[[nodiscard]] CLI::Validator bytes();
// Only from one to the other; `range` says so, as in "100ms to 1d".
[[nodiscard]] CLI::Validator seconds(double least, double most, const std::string& range);
[[nodiscard]] CLI::Validator bytes(std::uint64_t least, std::uint64_t most,
                                   const std::string& range);

}  // namespace weft::cli
