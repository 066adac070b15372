// Text for people: aligned tables, sizes, durations.
//
// Threading: values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::cli {

// Columns as wide as their widest cell, two blanks between them, no lines drawn. Columns whose
// cells below the head are all numbers (with a unit, perhaps) or "-" stand to the right.
class Table {
 public:
  explicit Table(std::vector<std::string> head) : rows_{std::move(head)} {}

  // A row of fewer cells than the head is filled up with empty ones. Precondition: not more.
  void add(std::vector<std::string> cells);
  [[nodiscard]] bool empty() const { return rows_.size() == 1; }
  // Each line ends in a line feed and has no blanks at its end.
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// "0 B", "1023 B", "1.00 KiB", "12.3 GiB": three digits that count.
[[nodiscard]] std::string human_bytes(std::uint64_t bytes);
// "0 ms", "850 ms", "12.3 s", "4 min 5 s", "3 h 2 min", "5 d 4 h".
[[nodiscard]] std::string human_duration(std::uint64_t milliseconds);
// "1,234,567".
[[nodiscard]] std::string human_count(std::uint64_t count);

// How many columns a UTF-8 text takes, counting each code point as one; what stands in names and
// paths may be anything.
[[nodiscard]] std::size_t columns(std::string_view text);
// The text with control characters (a file name may have a line feed or an escape sequence in it)
// replaced, so that it cannot disturb a terminal or a table.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace weft::cli
