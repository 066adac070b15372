#include "tools/load/histogram.h"

#include <algorithm>
#include <cmath>

namespace weft::load {

void Histogram::add(std::uint64_t nanoseconds) {
  ++buckets_[bucket(nanoseconds)];
  ++count_;
  sum_ += nanoseconds;
  max_ = std::max(max_, nanoseconds);
}

std::uint64_t Histogram::bucket_end(std::size_t index) {
  if (index < (2U << kSubBits)) return index;
  const auto shift = static_cast<unsigned>(index >> kSubBits) - 1;
  const std::uint64_t top = (index & ((1U << kSubBits) - 1)) + (1U << kSubBits);
  return ((top + 1) << shift) - 1;
}

std::uint64_t Histogram::quantile(double fraction) const {
  if (count_ == 0) return 0;
  const auto wanted = static_cast<std::uint64_t>(
      std::ceil(std::clamp(fraction, 0.0, 1.0) * static_cast<double>(count_)));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += buckets_[i];
    if (seen >= wanted && seen > 0) return std::min(bucket_end(i), max_);
  }
  return max_;
}

}  // namespace weft::load
