#include "tools/weft/table.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cctype>
#include <numeric>
#include <sstream>

namespace weft::cli {
namespace {

bool is_number(std::string_view cell) {
  if (cell.contains(';')) return false;
  return cell.empty() || cell == "-" || std::isdigit(static_cast<unsigned char>(cell.front())) != 0;
}

bool stands_right(const std::vector<std::vector<std::string>>& rows, std::size_t column) {
  return rows.size() > 1 && std::all_of(rows.begin() + 1, rows.end(), [column](const auto& row) {
           return is_number(row[column]);
         });
}

std::size_t line_of(const std::vector<std::size_t>& width) {
  return std::accumulate(width.begin(), width.end(), std::size_t{0}) + 2 * (width.size() - 1);
}

}  // namespace

void Table::narrow(std::vector<std::size_t>& width) const {
  std::vector<std::size_t> can;
  const auto& head = rows_.front();
  for (std::size_t column = 0; column < head.size(); ++column) {
    if (std::ranges::find(shortened_, head[column]) != shortened_.end()) can.push_back(column);
  }
  while (line_of(width) > kScreenColumns) {
    std::erase_if(can, [&](std::size_t column) { return width[column] <= columns(head[column]); });
    if (can.empty()) return;
    const std::size_t widest =
        *std::ranges::max_element(can, {}, [&width](std::size_t column) { return width[column]; });
    --width[widest];
  }
}

void Table::add(std::vector<std::string> cells) {
  cells.resize(rows_.front().size());
  rows_.push_back(std::move(cells));
}

std::vector<std::size_t> Table::widths() const {
  std::vector<std::size_t> width(rows_.front().size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t column = 0; column < width.size(); ++column) {
      width[column] = std::max(width[column], columns(row[column]));
    }
  }
  narrow(width);
  return width;
}

bool Table::fits() const { return line_of(widths()) <= kScreenColumns; }

std::string Table::text() const {
  const std::vector<std::size_t> width = widths();
  const std::size_t count = width.size();
  std::vector<bool> right(count, false);
  for (std::size_t column = 0; column < count; ++column) {
    right[column] = stands_right(rows_, column);
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t column = 0; column < count; ++column) {
      const std::string cell = shortened(row[column], width[column]);
      const std::string fill(width[column] - columns(cell), ' ');
      if (column != 0) line += "  ";
      line += right[column] ? fill + cell : cell + fill;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string wrapped(const std::string& head, const std::string& text) {
  std::string out = head;
  std::size_t at = columns(head);
  const std::size_t indent = at;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ' ');) {
    if (at > indent && at + columns(word) >= kScreenColumns) {
      out += "\n" + std::string(indent, ' ');
      at = indent;
    }
    out += (at > indent ? " " : "") + word;
    at += columns(word) + (at > indent ? 1 : 0);
  }
  return out + "\n";
}

}  // namespace weft::cli
