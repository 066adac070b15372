// What an administrator should know of, and the word by which scripts know it.
//
// Threading: plain values.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace weft::cli {

struct Problem {
  std::string_view code;  // of health_codes()
  std::string text;       // a sentence or two, with what to do
};

struct HealthCode {
  std::string_view code;
  std::string_view means;
  bool note = false;  // it is told of, and the system is healthy all the same
};
// All that there are; weft(1) lists them.
[[nodiscard]] std::span<const HealthCode> health_codes();
[[nodiscard]] bool is_note(std::string_view code);

}  // namespace weft::cli
