#include "tools/weft/units.h"

#include <spdlog/fmt/fmt.h>

#include <string>

#include "rpc/base/units.h"

namespace weft::cli {

CLI::Validator seconds() {
  return {[](std::string& text) -> std::string {
            const auto parsed = parse_duration(text);
            if (!parsed) {
              return "'" + text +
                     "' is no duration: a number of seconds, or one with a unit of ms " +
                     "s min h d y";
            }
            const auto whole = std::chrono::duration_cast<std::chrono::seconds>(*parsed);
            text = whole == *parsed
                       ? fmt::format("{}", whole.count())
                       : fmt::format("{}", std::chrono::duration<double>(*parsed).count());
            return "";
          },
          "DURATION"};
}

CLI::Validator bytes() {
  return {[](std::string& text) -> std::string {
            const auto parsed = parse_bytes(text);
            if (!parsed) {
              return "'" + text +
                     "' is no size: a number of bytes, or one with a unit of KiB MiB " +
                     "GiB TiB PiB, or the first letter";
            }
            text = fmt::format("{}", *parsed);
            return "";
          },
          "BYTES"};
}

}  // namespace weft::cli
