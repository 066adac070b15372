#include "rpc/base/units.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <numeric>
#include <optional>
#include <span>

namespace weft {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t factor;
};

constexpr std::size_t kMostDecimals = 9;

// The digits at its front, which are taken off.
std::string_view take_digits(std::string_view& text) {
  const std::string_view digits = text.substr(0, text.find_first_not_of("0123456789"));
  text.remove_prefix(digits.size());
  return digits;
}

std::optional<std::int64_t> number_of(std::string_view digits) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc{}) return std::nullopt;
  return number;
}

// Of `factor` what the digits behind the point say; nullopt: it is no whole number.
std::optional<std::int64_t> part_of(std::int64_t factor, std::string_view decimals) {
  std::int64_t over = 1;
  for (std::size_t digits = decimals.size(); digits > 0; --digits) over *= 10;
  const std::int64_t common = std::gcd(factor, over);
  const std::int64_t part = number_of(decimals).value_or(0);
  if (part % (over / common) != 0) return std::nullopt;
  return part / (over / common) * (factor / common);
}

// In what the units' factors count.
Result<std::int64_t> parse_with_unit(std::string_view text, std::span<const Unit> units,
                                     std::int64_t most) {
  const std::string_view digits = take_digits(text);
  if (digits.empty() || (digits.size() > 1 && digits.front() == '0')) {
    return fail(Errc::kInvalid, "no number");
  }
  std::string_view decimals;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    decimals = take_digits(text);
    if (decimals.empty() || decimals.size() > kMostDecimals) {
      return fail(Errc::kInvalid, "no number");
    }
  }
  while (text.starts_with(' ')) text.remove_prefix(1);
  const auto unit = std::ranges::find(units, text, &Unit::name);
  if (unit == units.end()) return fail(Errc::kInvalid, "no such unit");
  const auto number = number_of(digits);
  if (!number || *number >= most / unit->factor) return fail(Errc::kInvalid, "too large");
  const auto part = part_of(unit->factor, decimals);
  if (!part) return fail(Errc::kInvalid, "no whole number");
  return *number * unit->factor + *part;
}

}  // namespace

Result<std::int64_t> parse_bytes(std::string_view text) {
  static constexpr Unit kUnits[] = {
      {"", 1},          {"B", 1},           {"K", 1LL << 10}, {"KiB", 1LL << 10},
      {"M", 1LL << 20}, {"MiB", 1LL << 20}, {"G", 1LL << 30}, {"GiB", 1LL << 30},
      {"T", 1LL << 40}, {"TiB", 1LL << 40}, {"P", 1LL << 50}, {"PiB", 1LL << 50}};
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

Result<std::chrono::microseconds> parse_duration(std::string_view text) {
  constexpr std::int64_t kMilli = 1000;
  constexpr std::int64_t kSecond = 1000 * kMilli;
  constexpr std::int64_t kDay = 24 * 3600 * kSecond;
  static constexpr Unit kUnits[] = {{"", kSecond},         {"ms", kMilli},        {"s", kSecond},
                                    {"min", 60 * kSecond}, {"h", 3600 * kSecond}, {"d", kDay},
                                    {"y", 365 * kDay}};
  auto parsed = parse_with_unit(text, kUnits, (std::int64_t{1} << 40) * kSecond);
  if (!parsed) return pass(parsed);
  return std::chrono::microseconds(*parsed);
}

Result<std::int64_t> parse_seconds(std::string_view text) {
  auto parsed = parse_duration(text);
  if (!parsed) return pass(parsed);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(*parsed);
  if (seconds != *parsed) return fail(Errc::kInvalid, "no whole number of seconds");
  return seconds.count();
}

}  // namespace weft
