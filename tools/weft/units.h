// Sizes and durations as options of commands (rpc/base/units.h). What is parsed is the number: "2h"
// becomes 7200.
//
// Threading: one thread.
#pragma once

#include <CLI/CLI.hpp>

namespace weft::cli {

[[nodiscard]] CLI::Validator seconds();
[[nodiscard]] CLI::Validator bytes();

}  // namespace weft::cli
