#include "layout/layout_map.h"

#include <rapidcheck.h>

#include <catch2/catch_test_macros.hpp>

using namespace weft;
using namespace weft::layout;

namespace {

LayoutMap sample() {
  LayoutMap map;
  map.stripe_unit = 1 << 20;
  map.copies.push_back({CopyState::kCurrent, 1, {4, 2, 9}});
  return map;
}

}  // namespace

TEST_CASE("a layout map's durable form comes back equal") {
  CHECK(rc::check([] {
    LayoutMap map;
    map.type = *rc::gen::element(LayoutType::kFiles, LayoutType::kFlexFiles);
    map.stripe_unit = 64 * *rc::gen::inRange<std::uint32_t>(1, 1 << 20);
    map.object_generation = *rc::gen::inRange<std::uint32_t>(1, 1000);
    map.object_epoch = *rc::gen::arbitrary<std::uint32_t>();
    const auto width = *rc::gen::inRange<std::uint32_t>(1, 20);
    const auto copies = *rc::gen::inRange<std::size_t>(1, 4);
    for (std::size_t i = 0; i < copies; ++i) {
      Copy copy;
      copy.state = *rc::gen::element(CopyState::kCurrent, CopyState::kStale);
      copy.first_index = *rc::gen::inRange<std::uint32_t>(0, width);
      for (std::uint32_t j = 0; j < width; ++j) copy.ds_ids.push_back(j * 7 + 1);
      map.copies.push_back(copy);
    }
    const auto back = decode_layout_map(std::string_view(encode_layout_map(map)));
    RC_ASSERT(back.has_value());
    RC_ASSERT(*back == map);
  }));
}

TEST_CASE("a layout map names the file's object and striping") {
  const LayoutMap map = sample();
  CHECK(map.object(3, 77) == ObjectId{77, 1, 3});
  CHECK(map.striping() == Striping::make(1 << 20, 3, 1).value());
}

TEST_CASE("maps that make no sense are found out") {
  const auto broken = [](auto change) {
    LayoutMap map = sample();
    change(map);
    return !validate(map).has_value();
  };
  CHECK(validate(sample()));
  CHECK(broken([](LayoutMap& map) { map.copies.clear(); }));
  CHECK(broken([](LayoutMap& map) { map.copies.resize(17, map.copies[0]); }));
  CHECK(broken([](LayoutMap& map) { map.copies[0].ds_ids.clear(); }));
  CHECK(broken([](LayoutMap& map) { map.copies[0].ds_ids[1] = 4; }));
  CHECK(broken([](LayoutMap& map) { map.copies[0].ds_ids[1] = 0; }));
  CHECK(broken([](LayoutMap& map) { map.copies[0].first_index = 3; }));
  CHECK(broken([](LayoutMap& map) { map.stripe_unit = 65; }));
  CHECK(broken([](LayoutMap& map) { map.object_generation = 0; }));
  CHECK(broken([](LayoutMap& map) { map.type = static_cast<LayoutType>(2); }));
  CHECK(broken([](LayoutMap& map) { map.copies[0].state = static_cast<CopyState>(9); }));
  CHECK(broken([](LayoutMap& map) { map.copies.push_back({CopyState::kCurrent, 0, {1}}); }));
}

TEST_CASE("damaged maps are corrupt, later formats not supported") {
  const std::string stored = encode_layout_map(sample());
  for (std::size_t size = 0; size < stored.size(); ++size) {
    CHECK(decode_layout_map(std::string_view(stored).substr(0, size)).error() == Errc::kCorrupt);
  }
  CHECK(decode_layout_map(std::string_view(stored + '\0')).error() == Errc::kCorrupt);
  std::string later = stored;
  later[3] = 2;
  CHECK(decode_layout_map(std::string_view(later)).error() == Errc::kNotSupported);
}
