// Copies past the caches.
#include "rpc/base/streaming_copy.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <vector>

namespace weft {
namespace {

TEST_CASE("a streaming copy writes what it should, wherever it begins and ends, and nothing else") {
  const std::size_t size = GENERATE(std::size_t{0}, std::size_t{1}, kStreamFrom - 1, kStreamFrom,
                                    kStreamFrom + 1, kStreamFrom + 63, 3 * kStreamFrom + 130);
  const std::size_t to = GENERATE(std::size_t{0}, std::size_t{1}, std::size_t{16}, std::size_t{63});
  const std::size_t from = GENERATE(std::size_t{0}, std::size_t{3});
  std::vector<std::byte> source(from + size);
  for (std::size_t i = 0; i < source.size(); ++i) {
    source[i] = static_cast<std::byte>(i * 31 + i / 251);
  }
  constexpr std::byte kUntouched{0xEE};
  std::vector<std::byte> room(to + size + 100, kUntouched);
  std::vector<std::byte> expected = room;
  std::copy(source.begin() + static_cast<std::ptrdiff_t>(from), source.end(),
            expected.begin() + static_cast<std::ptrdiff_t>(to));
  streaming_copy(room.data() + to, source.data() + from, size);
  CHECK((room == expected));
}

}  // namespace
}  // namespace weft
