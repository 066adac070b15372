#include "rpc/base/log_text.h"

namespace weft {

std::string log_text(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const char c : text.substr(0, kMaxLogText)) {
    if (c >= ' ' && c <= '~' && c != '"' && c != '\\') {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += "\\x";
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  if (text.size() > kMaxLogText) out += "...";
  return out;
}

}  // namespace weft
