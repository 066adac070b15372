// A fuzzer's input as what somebody does, byte by byte: zeros when it is used up.
//
// Threading: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace weft::test {

inline void must(bool held) {
  if (!held) std::abort();
}

struct Script {
  const std::uint8_t* at;
  std::size_t left;
  std::uint8_t byte() {
    if (left == 0) return 0;
    --left;
    return *at++;
  }
  std::uint32_t word() {
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i) value = value << 8 | byte();
    return value;
  }
};

}  // namespace weft::test
