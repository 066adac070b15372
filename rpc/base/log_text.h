// Text of a peer, as it goes into a log line.
//
// Threading: a pure function.
#pragma once

#include <string>
#include <string_view>

namespace weft {

// At most this much of it, with everything that could end the line or the quotes around it, and
// every byte that is not printable ASCII, as \xNN.
constexpr std::size_t kMaxLogText = 256;
[[nodiscard]] std::string log_text(std::string_view text);

}  // namespace weft
