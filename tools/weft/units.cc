#include "tools/weft/units.h"

#include <spdlog/fmt/fmt.h>

#include <string>

#include "rpc/base/units.h"

namespace weft::cli {

namespace {

// Error texts, empty when the text became the number that it stands for.
std::string to_seconds(std::string& text) {
  const auto parsed = parse_duration(text);
  if (!parsed) {
    return "'" + text +
           "' is no duration: a number of seconds, or one with a unit of ms s min h d y";
  }
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(*parsed);
  text = whole == *parsed ? fmt::format("{}", whole.count())
                          : fmt::format("{}", std::chrono::duration<double>(*parsed).count());
  return "";
}

std::string to_bytes(std::string& text) {
  const auto parsed = parse_bytes(text);
  if (!parsed) {
    return "'" + text +
           "' is no size: a number of bytes, or one with a unit of KiB MiB GiB TiB PiB, or the "
           "first letter";
  }
  text = fmt::format("{}", *parsed);
  return "";
}

}  // namespace

CLI::Validator seconds() { return {to_seconds, "DURATION"}; }

CLI::Validator bytes() { return {to_bytes, "BYTES"}; }

CLI::Validator seconds(double least, double most, const std::string& range) {
  return {[least, most, range](std::string& text) {
            const std::string said = text;
            std::string wrong = to_seconds(text);
            if (!wrong.empty()) return wrong;
            const double value = std::stod(text);
            return value < least || value > most ? said + " is not within " + range : "";
          },
          "DURATION (" + range + ")"};
}

CLI::Validator bytes(std::uint64_t least, std::uint64_t most, const std::string& range) {
  return {[least, most, range](std::string& text) {
            const std::string said = text;
            std::string wrong = to_bytes(text);
            if (!wrong.empty()) return wrong;
            const std::uint64_t value = std::stoull(text);
            return value < least || value > most ? said + " is not within " + range : "";
          },
          "BYTES (" + range + ")"};
}

}  // namespace weft::cli
