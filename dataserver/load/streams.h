// How many streams do I/O: pairs of client and object that a READ or WRITE came for since the last
// count. Counted by linear probabilistic counting (Whang and others, 1990): each stream sets one of
// kBits bits, and the number of bits left empty tells how many streams there were. Right within a
// few percent up to a few hundred streams; beyond about 1500 it says "that many".
//
// Threading: note() on any thread, cheapest when each has a sketch of its own; take() on another.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace weft::ds {

class StreamSketch {
 public:
  static constexpr std::size_t kBits = 256;
  using Bits = std::array<std::uint64_t, kBits / 64>;

  void note(std::uint64_t client, std::uint64_t object) {
    std::uint64_t h = (client * 0x9E3779B97F4A7C15ULL) ^ (object * 0xC2B2AE3D27D4EB4FULL);
    h ^= h >> 31;
    h *= 0xD6E8FEB86659FD93ULL;
    h ^= h >> 32;
    std::atomic<std::uint64_t>& word = words_[h / 64 % words_.size()];
    const std::uint64_t bit = std::uint64_t{1} << (h % 64);
    if ((word.load(std::memory_order_relaxed) & bit) == 0) {
      word.fetch_or(bit, std::memory_order_relaxed);
    }
  }

  // Adds what was noted since the last call to `sum`.
  void take(Bits& sum) {
    for (std::size_t i = 0; i < sum.size(); ++i) {
      sum[i] |= words_[i].exchange(0, std::memory_order_relaxed);
    }
  }

  [[nodiscard]] static std::uint32_t estimate(const Bits& bits) {
    int set = 0;
    for (const std::uint64_t word : bits) set += std::popcount(word);
    if (set == 0) return 0;
    const double m = static_cast<double>(kBits);
    const double empty = std::max(0.5, m - set);
    return static_cast<std::uint32_t>(std::lround(-m * std::log(empty / m)));
  }

 private:
  std::array<std::atomic<std::uint64_t>, kBits / 64> words_{};
};

}  // namespace weft::ds
