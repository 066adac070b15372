// Numbers with units on the command line. What is parsed is the number: "2h" becomes 7200.
//
// Threading: one thread.
#pragma once

#include <CLI/CLI.hpp>

namespace weft::cli {

// ms, s, min, h, d, y (365 days). With `plain` a number alone is of seconds; otherwise it has to
// have a unit.
[[nodiscard]] CLI::Validator seconds(bool plain = false);
// None, B, KiB to PiB, or their first letter.
[[nodiscard]] CLI::Validator bytes();

}  // namespace weft::cli
