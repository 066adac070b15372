// The TOML library. toml++ 3.3 breaks on some texts, so it is included by way of this.
//
// Threading: pure functions.
#pragma once

#include <algorithm>
#include <string_view>

// It says what it expects of a text with a macro that is an assert, or an assumption for the
// optimiser with NDEBUG; "[[[[" breaks both. Neither: the checks that come after find the error.
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_ASSERT(expr) static_assert(true)
#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

namespace weft {

// Where the text is not ASCII; its end if it is. The parser runs into undefined behaviour on some
// other characters (U+FE7F is one): no text with any is given to it.
[[nodiscard]] inline std::string_view::iterator not_ascii(std::string_view text) {
  return std::ranges::find_if(text, [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
}

}  // namespace weft
