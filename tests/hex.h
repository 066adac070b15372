// Bytes as hex digits, to compare with bytes that were recorded.
#pragma once

#include <spdlog/fmt/fmt.h>

#include <cstddef>
#include <span>
#include <string>

namespace weft::test {

inline std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

}  // namespace weft::test
