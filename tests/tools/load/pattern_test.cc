#include "tools/load/pattern.h"

#include <catch2/catch_test_macros.hpp>
#include <vector>

using weft::load::check_pattern;
using weft::load::fill_pattern;

TEST_CASE("a piece of the pattern is right wherever it is checked, and nowhere else") {
  std::vector<std::byte> bytes(4099);
  fill_pattern(bytes, 7, 1 << 20);
  CHECK_FALSE(check_pattern(bytes, 7, 1 << 20));
  CHECK(check_pattern(bytes, 8, 1 << 20) == 1 << 20);
  CHECK(check_pattern(bytes, 7, (1 << 20) + 8) == (1 << 20) + 8);
}

TEST_CASE("one flipped bit is found, to the word") {
  std::vector<std::byte> bytes(4096);
  fill_pattern(bytes, 7, 8192);
  bytes[1234] ^= std::byte{0x10};
  CHECK(check_pattern(bytes, 7, 8192) == 8192 + 1232);
}
