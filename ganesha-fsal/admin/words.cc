#include "ganesha-fsal/admin/words.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>

namespace weft::mds {
namespace {

// Where the code point with this number begins.
std::size_t offset_of(std::string_view text, std::size_t number) {
  std::size_t at = 0;
  while (at < text.size() && columns(text.substr(0, at + 1)) <= number) ++at;
  return at;
}

// Three digits that count, and the unit behind them.
std::string scaled(double value, std::string_view unit) {
  const int digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, digits, unit);
}

}  // namespace

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  // 1023.5 rounds to a number of four digits: the next unit is better.
  while (value >= 999.5 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return scaled(value, kUnits[unit]);
}

std::string human_duration(std::uint64_t milliseconds) {
  if (milliseconds < 1000) return fmt::format("{} ms", milliseconds);
  if (milliseconds < 60'000) return fmt::format("{:.1f} s", milliseconds / 100 / 10.0);
  const std::uint64_t seconds = milliseconds / 1000;
  const std::uint64_t minutes = seconds / 60;
  const std::uint64_t hours = minutes / 60;
  if (hours == 0) return fmt::format("{} min {} s", minutes, seconds % 60);
  if (hours < 24) return fmt::format("{} h {} min", hours, minutes % 60);
  return fmt::format("{} d {} h", hours / 24, hours % 24);
}

std::string short_duration(std::uint64_t milliseconds) {
  if (milliseconds < 60'000) return human_duration(milliseconds);
  const std::uint64_t minutes = milliseconds / 60'000;
  if (minutes < 120) return fmt::format("{} min", minutes);
  if (minutes < 48 * 60) return fmt::format("{} h", minutes / 60);
  return fmt::format("{} d", minutes / (24 * 60));
}

std::string human_count(std::uint64_t count) {
  std::string digits = std::to_string(count);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

std::string short_count(std::uint64_t count) {
  constexpr std::array<std::string_view, 5> kUnits = {"M", "G", "T", "P", "E"};
  if (count < 1'000'000) return human_count(count);
  double value = static_cast<double>(count) / 1e6;
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return scaled(value, kUnits.at(unit));
}

std::string counted_objects(std::uint64_t count) {
  return (count < kMostObjectsCounted ? "" : "at least ") + std::to_string(count) + " objects";
}

std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

std::string shortened(const std::string& text, std::size_t width) {
  const std::size_t all = columns(text);
  if (all <= width) return text;
  const std::size_t begin = width / 2;
  const std::size_t end = width - begin - 1;
  return text.substr(0, offset_of(text, begin)) + "…" + text.substr(offset_of(text, all - end));
}

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace weft::mds
