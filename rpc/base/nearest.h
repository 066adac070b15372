// The word of a list that was most likely meant.
//
// Threading: pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace weft {

// Levenshtein's: letters added, left out or changed. Case is a difference.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

// Of those that begin with the word, if any, the shortest; else the first at the least distance,
// whatever the case; empty when `known` is. Of a long word the first letters count only.
[[nodiscard]] std::string_view nearest(std::string_view word,
                                       std::span<const std::string_view> known);
// Whether no more than half of its letters are wrong.
[[nodiscard]] bool is_near(std::string_view word, std::string_view known);

// "there is no option --confg; did you mean --config?". What is no option: "WORD is one too many".
[[nodiscard]] std::string unknown_word(std::string_view word,
                                       std::span<const std::string_view> options);

}  // namespace weft
