#include "rpc/base/units.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <span>

namespace weft {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t factor;
};

// A whole number, spaces or none, a unit or none.
Result<std::int64_t> parse_with_unit(std::string_view text, std::span<const Unit> units,
                                     std::int64_t most) {
  std::int64_t number = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (error != std::errc{} || number < 0) return fail(Errc::kInvalid, "no number");
  std::string_view name(end, static_cast<std::size_t>(last - end));
  while (name.starts_with(' ')) name.remove_prefix(1);
  const auto unit = std::ranges::find(units, name, &Unit::name);
  if (unit == units.end()) return fail(Errc::kInvalid, "no such unit");
  if (number > most / unit->factor) return fail(Errc::kInvalid, "too large");
  return number * unit->factor;
}

}  // namespace

Result<std::int64_t> parse_bytes(std::string_view text) {
  static constexpr Unit kUnits[] = {{"", 1},
                                    {"K", 1LL << 10},
                                    {"KiB", 1LL << 10},
                                    {"M", 1LL << 20},
                                    {"MiB", 1LL << 20},
                                    {"G", 1LL << 30},
                                    {"GiB", 1LL << 30},
                                    {"T", 1LL << 40},
                                    {"TiB", 1LL << 40}};
  return parse_with_unit(text, kUnits, std::int64_t{1} << 62);
}

std::string bytes_text(std::uint64_t bytes) {
  static constexpr std::string_view kNames[] = {"", " KiB", " MiB", " GiB", " TiB"};
  std::size_t unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit + 1 < std::size(kNames)) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{}{}", bytes, kNames[unit]);
}

Result<std::int64_t> parse_seconds(std::string_view text) {
  static constexpr Unit kUnits[] = {{"", 1}, {"s", 1}, {"min", 60}, {"h", 3600}, {"d", 24 * 3600}};
  return parse_with_unit(text, kUnits, std::int64_t{1} << 40);
}

}  // namespace weft
