#include "tools/weft/units.h"

#include <spdlog/fmt/fmt.h>

#include <charconv>
#include <map>
#include <string>
#include <utility>

namespace weft::cli {
namespace {

// A number, spaces or none, a unit. CLI11's own AsNumberWithUnit keeps six digits: 1M would be
// 1048580.
CLI::Validator with_unit(std::map<std::string, double> units, const std::string& name) {
  return {[units = std::move(units)](std::string& text) -> std::string {
            double number = 0;
            const char* last = text.data() + text.size();
            const auto [end, error] = std::from_chars(text.data(), last, number);
            std::string unit(end, last);
            unit.erase(0, unit.find_first_not_of(' '));
            const auto found = units.find(unit);
            if (error != std::errc{} || found == units.end()) {
              std::string known;
              for (const auto& [one, factor] : units) known += one.empty() ? "" : " " + one;
              return "'" + text + "' is no number with a unit (" + known.substr(1) + ")";
            }
            text = fmt::format("{}", number * found->second);
            return "";
          },
          name};
}

}  // namespace

CLI::Validator seconds(bool plain) {
  std::map<std::string, double> units{{"ms", 0.001}, {"s", 1},     {"min", 60},
                                      {"h", 3600},   {"d", 86400}, {"y", 365.0 * 86400}};
  if (plain) units[""] = 1;
  return with_unit(std::move(units), "DURATION");
}

CLI::Validator bytes() {
  std::map<std::string, double> units{{"", 1}, {"B", 1}};
  double size = 1;
  for (const char* unit : {"K", "M", "G", "T", "P"}) {
    size *= 1024;
    units[unit] = units[std::string(unit) + "iB"] = size;
  }
  return with_unit(std::move(units), "BYTES");
}

}  // namespace weft::cli
