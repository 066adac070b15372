// Text for people: aligned tables, wrapped lines.
//
// Threading: values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ganesha-fsal/admin/words.h"

namespace weft::cli {

using mds::columns;
using mds::human_bytes;
using mds::human_count;
using mds::human_duration;
using mds::printable;
using mds::short_count;
using mds::short_duration;
using mds::shortened;

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
  // Whether its lines are no longer than a screen is wide.
  [[nodiscard]] bool fits() const;
  // Each line ends in a line feed and has no blanks at its end.
  [[nodiscard]] std::string text() const;

 private:
  [[nodiscard]] std::vector<std::size_t> widths() const;
  void narrow(std::vector<std::size_t>& width) const;

  std::vector<std::vector<std::string>> rows_;
  std::vector<std::string_view> shortened_;
};

// Behind `head`, lines no longer than a screen is wide, those after the first indented as far. A
// word that is longer is not cut. Ends in a line feed.
[[nodiscard]] std::string wrapped(const std::string& head, const std::string& text);

}  // namespace weft::cli
