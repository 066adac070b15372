// Text for people: aligned tables, wrapped lines, sizes, durations.
//
// Threading: values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::cli {

// How wide a terminal is taken to be.
constexpr std::size_t kScreenColumns = 80;

// Columns as wide as their widest cell, two blanks between them, no lines drawn. Columns whose
// cells below the head are all numbers (with a unit, perhaps) or "-" stand to the right. A number
// with words behind a semicolon is text.
class Table {
 public:
  // Where lines do not fit on a screen, columns under the heads in `shortened` get narrower, the
  // widest first: their cells are shortened().
  explicit Table(std::vector<std::string> head, std::vector<std::string_view> shortened = {})
      : rows_{std::move(head)}, shortened_(std::move(shortened)) {}

  // A row of fewer cells than the head is filled up with empty ones. Precondition: not more.
  void add(std::vector<std::string> cells);
  [[nodiscard]] bool empty() const { return rows_.size() == 1; }
  // Each line ends in a line feed and has no blanks at its end.
  [[nodiscard]] std::string text() const;

 private:
  void narrow(std::vector<std::size_t>& width) const;

  std::vector<std::vector<std::string>> rows_;
  std::vector<std::string_view> shortened_;
};

// "0 B", "1023 B", "1.00 KiB", "12.3 GiB": three digits that count.
[[nodiscard]] std::string human_bytes(std::uint64_t bytes);
// "0 ms", "850 ms", "12.3 s", "4 min 5 s", "3 h 2 min", "5 d 4 h".
[[nodiscard]] std::string human_duration(std::uint64_t milliseconds);
// One unit, for where there is no room for two: "850 ms", "12.3 s", "119 min", "47 h", "5 d".
[[nodiscard]] std::string short_duration(std::uint64_t milliseconds);
// "1,234,567".
[[nodiscard]] std::string human_count(std::uint64_t count);
// In seven columns at most: "999,999", "1.23 M", "12.3 G".
[[nodiscard]] std::string short_count(std::uint64_t count);

// How many columns a UTF-8 text takes, counting each code point as one; what stands in names and
// paths may be anything.
[[nodiscard]] std::size_t columns(std::string_view text);
// Begin and end of what takes more than `width` columns, with "…" between them. Names that begin
// alike stay different so. Precondition: `width` is not 0.
[[nodiscard]] std::string shortened(const std::string& text, std::size_t width);
// Behind `head`, lines no longer than a screen is wide, those after the first indented as far. A
// word that is longer is not cut. Ends in a line feed.
[[nodiscard]] std::string wrapped(const std::string& head, const std::string& text);
// The text with control characters (a file name may have a line feed or an escape sequence in it)
// replaced, so that it cannot disturb a terminal or a table.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace weft::cli
