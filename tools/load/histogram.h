// A latency histogram with about 3% resolution over nanoseconds to minutes, in fixed memory.
//
// Buckets are log-linear: each power of two is cut into 32 equal parts.
//
// Threading: one thread at a time.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace weft::load {

class Histogram {
 public:
  void add(std::uint64_t nanoseconds);

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::uint64_t max() const { return max_; }
  [[nodiscard]] double mean() const {  // 0 when empty
    return count_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(count_);
  }
  // The least value that at least `fraction` (0 to 1) of all samples do not exceed, rounded up to
  // its bucket's end; 0 when empty.
  [[nodiscard]] std::uint64_t quantile(double fraction) const;

 private:
  static constexpr unsigned kSubBits = 5;
  static constexpr std::size_t kBuckets = (64 - kSubBits + 1) << kSubBits;

  static std::size_t bucket(std::uint64_t value) {
    if (value < (1U << kSubBits)) return static_cast<std::size_t>(value);
    const unsigned shift = static_cast<unsigned>(std::bit_width(value)) - kSubBits - 1;
    return (std::size_t{shift} << kSubBits) + static_cast<std::size_t>(value >> shift);
  }
  static std::uint64_t bucket_end(std::size_t index);

  std::array<std::uint64_t, kBuckets> buckets_{};
  std::uint64_t count_ = 0;
  std::uint64_t max_ = 0;
  std::uint64_t sum_ = 0;
};

}  // namespace weft::load
