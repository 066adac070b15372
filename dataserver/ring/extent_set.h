// A set of byte ranges: which parts of an object something is known of.
//
// Threading: one thread at a time.
//
// Invariant: extents are in order, not empty, and apart from each other.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace weft::ds {

constexpr std::uint64_t kRegionBytes = std::uint64_t{4} << 20;
constexpr std::uint64_t kMaxEnd = std::numeric_limits<std::int64_t>::max();

struct ByteRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;  // after the last byte
  [[nodiscard]] bool overlaps(const ByteRange& other) const {
    return begin < other.end && other.begin < end;
  }
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

// The whole regions of kRegionBytes that the range touches. Precondition: not empty.
[[nodiscard]] ByteRange whole_regions(ByteRange range);

class ExtentSet {
 public:
  // Beyond `max` extents the nearest are joined, the gap between them included.
  void add(ByteRange range, std::size_t max = 256);
  void add(const ExtentSet& other, std::size_t max = 256);
  [[nodiscard]] bool covers(ByteRange range) const;
  [[nodiscard]] bool empty() const { return extents_.empty(); }
  [[nodiscard]] const std::vector<ByteRange>& extents() const { return extents_; }
  friend bool operator==(const ExtentSet&, const ExtentSet&) = default;

 private:
  std::vector<ByteRange> extents_;
};

}  // namespace weft::ds
