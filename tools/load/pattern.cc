#include "tools/load/pattern.h"

#include <algorithm>
#include <cstring>

namespace weft::load {
namespace {

std::uint64_t word_at(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t x = seed * 0x9E3779B97F4A7C15ULL + index;  // splitmix64's finaliser
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ x >> 27) * 0x94D049BB133111EBULL;
  return x ^ x >> 31;
}

}  // namespace

void fill_pattern(std::span<std::byte> out, std::uint64_t seed, std::uint64_t offset) {
  for (std::size_t at = 0; at < out.size(); at += 8) {
    const std::uint64_t word = word_at(seed, (offset + at) / 8);
    std::memcpy(out.data() + at, &word, std::min<std::size_t>(8, out.size() - at));
  }
}

std::optional<std::uint64_t> check_pattern(std::span<const std::byte> bytes, std::uint64_t seed,
                                           std::uint64_t offset) {
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    const std::uint64_t word = word_at(seed, (offset + at) / 8);
    if (std::memcmp(bytes.data() + at, &word, std::min<std::size_t>(8, bytes.size() - at)) != 0) {
      return offset + at;
    }
  }
  return std::nullopt;
}

}  // namespace weft::load
