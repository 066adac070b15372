#include "dataserver/ring/extent_set.h"

#include <algorithm>

namespace weft::ds {

ByteRange whole_regions(ByteRange range) {
  const std::uint64_t begin = range.begin - range.begin % kRegionBytes;
  if (range.end > kMaxEnd - kRegionBytes) return {begin, kMaxEnd};
  return {begin, (range.end + kRegionBytes - 1) / kRegionBytes * kRegionBytes};
}

void ExtentSet::add(ByteRange range, std::size_t max) {
  if (range.begin >= range.end) return;
  // Those that touch it become one with it.
  const auto first = std::ranges::lower_bound(extents_, range.begin, {}, &ByteRange::end);
  auto last = first;
  while (last != extents_.end() && last->begin <= range.end) ++last;
  if (first != last) {
    range.begin = std::min(range.begin, first->begin);
    range.end = std::max(range.end, std::prev(last)->end);
  }
  extents_.insert(extents_.erase(first, last), range);
  while (extents_.size() > std::max<std::size_t>(max, 1)) {
    std::size_t nearest = 1;
    const auto gap = [this](std::size_t i) { return extents_[i].begin - extents_[i - 1].end; };
    for (std::size_t i = 2; i < extents_.size(); ++i) {
      if (gap(i) < gap(nearest)) nearest = i;
    }
    extents_[nearest - 1].end = extents_[nearest].end;
    extents_.erase(extents_.begin() + static_cast<std::ptrdiff_t>(nearest));
  }
}

void ExtentSet::add(const ExtentSet& other, std::size_t max) {
  for (const ByteRange& range : other.extents_) add(range, max);
}

bool ExtentSet::covers(ByteRange range) const {
  if (range.begin >= range.end) return true;
  const auto found = std::ranges::upper_bound(extents_, range.begin, {}, &ByteRange::end);
  return found != extents_.end() && found->begin <= range.begin && range.end <= found->end;
}

}  // namespace weft::ds
