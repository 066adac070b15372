#include "dataserver/ring/extent_set.h"

#include <rapidcheck.h>

#include <catch2/catch_test_macros.hpp>
#include <set>

namespace weft::ds {
namespace {

TEST_CASE("regions are whole, to the end of what there can be") {
  CHECK(whole_regions({0, 1}) == ByteRange{0, kRegionBytes});
  CHECK(whole_regions({kRegionBytes - 1, kRegionBytes + 1}) == ByteRange{0, 2 * kRegionBytes});
  CHECK(whole_regions({kRegionBytes, 2 * kRegionBytes}) ==
        ByteRange{kRegionBytes, 2 * kRegionBytes});
  CHECK(whole_regions({kMaxEnd - 1, kMaxEnd}).end == kMaxEnd);
}

TEST_CASE("a set of extents is a set of bytes") {
  CHECK(rc::check([](const std::vector<std::pair<std::uint8_t, std::uint8_t>>& ranges) {
    ExtentSet extents;
    std::set<std::uint64_t> bytes;
    for (const auto& [begin, length] : ranges) {
      const ByteRange range{begin, std::uint64_t{begin} + length % 16};
      extents.add(range);
      for (std::uint64_t at = range.begin; at < range.end; ++at) bytes.insert(at);
    }
    for (std::uint64_t at = 0; at < 300; ++at) {
      RC_ASSERT(extents.covers({at, at + 1}) == bytes.contains(at));
      RC_ASSERT(extents.covers({at, at + 3}) ==
                (bytes.contains(at) && bytes.contains(at + 1) && bytes.contains(at + 2)));
    }
    for (std::size_t i = 1; i < extents.extents().size(); ++i) {
      RC_ASSERT(extents.extents()[i - 1].end < extents.extents()[i].begin);
    }
  }));
}

TEST_CASE("beyond the limit the nearest are joined") {
  ExtentSet extents;
  extents.add({0, 1}, 2);
  extents.add({10, 11}, 2);
  extents.add({13, 14}, 2);
  CHECK(extents.extents() == std::vector<ByteRange>{{0, 1}, {10, 14}});
}

}  // namespace
}  // namespace weft::ds
