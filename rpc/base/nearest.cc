#include "rpc/base/nearest.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace weft {
namespace {

constexpr std::size_t kLongestWord = 64;

std::string lower(std::string_view text) {
  std::string made(text);
  for (char& c : made) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return made;
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::string_view nearest(std::string_view word, std::span<const std::string_view> known) {
  const std::string wanted = lower(word.substr(0, kLongestWord));
  const auto far = [&](std::string_view one) {
    // A single letter says too little.
    const bool begins = wanted.size() > 1 && lower(one).starts_with(wanted);
    return std::pair(!begins, begins ? one.size() : edit_distance(wanted, lower(one)));
  };
  const auto found = std::ranges::min_element(known, {}, far);
  return found == known.end() ? std::string_view() : *found;
}

std::string unknown_word(std::string_view word, std::span<const std::string_view> options) {
  if (!word.starts_with('-')) return std::string(word) + " is one too many";
  const std::string_view name = word.substr(0, word.find('='));
  std::string text = "there is no option " + std::string(name);
  const std::string_view near = nearest(name, options);
  if (is_near(name, near)) text += "; did you mean " + std::string(near) + "?";
  return text;
}

bool is_near(std::string_view word, std::string_view known) {
  const std::string wanted = lower(word.substr(0, kLongestWord));
  const std::string other = lower(known);
  return other.starts_with(wanted) || 2 * edit_distance(wanted, other) <= wanted.size();
}

}  // namespace weft
