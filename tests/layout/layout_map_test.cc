#include "layout/layout_map.h"

#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "rpc/xdr/xdr.h"

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
    map.duplication = *rc::gen::element(Duplication::kNone, Duplication::kServerAsync,
                                        Duplication::kServerSync, Duplication::kClientSync);
    map.reads = *rc::gen::element(ReadPolicy::kOneCopy, ReadPolicy::kAllCopies);
    const auto width = *rc::gen::inRange<std::uint32_t>(1, 20);
    const auto first = *rc::gen::inRange<std::uint32_t>(0, width);
    const auto copies = *rc::gen::inRange<std::uint32_t>(1, 4);
    for (std::uint32_t i = 0; i < copies; ++i) {
      Copy copy;
      copy.first_index = first;
      for (std::uint32_t j = 0; j < width; ++j) copy.ds_ids.push_back(j * 7 + i + 1);
      for (std::uint32_t j = 0; j < width; ++j) {
        copy.set_state(
            j, *rc::gen::weightedElement<CopyState>(
                   {{6, CopyState::kCurrent}, {2, CopyState::kStale}, {1, CopyState::kResyncing}}));
      }
      map.copies.push_back(copy);
    }
    if (*rc::gen::arbitrary<bool>()) {
      map.placed.reasons.assign(width * *rc::gen::inRange<std::size_t>(1, map.copies.size() + 1),
                                Reason::kTurn);
      map.placed.reasons.back() = Reason::kDisk;
      map.placed.skipped_ds = 99;
      map.placed.skipped_for = Reason::kNetwork;
    }
    RC_ASSERT(validate(map).has_value());
    const auto back = decode_layout_map(std::string_view(encode_layout_map(map)));
    RC_ASSERT(back.has_value());
    RC_ASSERT(*back == map);
  }));
}

TEST_CASE("every server of a copy has its state, the copy has the worst") {
  Copy copy{CopyState::kCurrent, 0, {4, 2, 9}};
  copy.set_state(1, CopyState::kResyncing);
  CHECK(copy.state == CopyState::kResyncing);
  copy.set_state(2, CopyState::kStale);
  CHECK(copy.state == CopyState::kStale);
  CHECK(copy.state_of(0) == CopyState::kCurrent);
  CHECK(copy.state_of(1) == CopyState::kResyncing);
  CHECK(copy.state_of(2) == CopyState::kStale);
  copy.set_state(1, CopyState::kCurrent);
  copy.set_state(2, CopyState::kCurrent);
  CHECK(copy == Copy{CopyState::kCurrent, 0, {4, 2, 9}});
  Copy all{CopyState::kStale, 0, {4, 2}};
  CHECK(all.state_of(1) == CopyState::kStale);
  all.set_state(0, CopyState::kCurrent);
  CHECK(all.states == std::vector{CopyState::kCurrent, CopyState::kStale});
}

TEST_CASE("the durable form is the one that is written down") {
  LayoutMap map = sample();
  map.copies[0].first_index = 0;
  map.copies[0].ds_ids = {4, 2};
  map.copies.push_back({CopyState::kCurrent, 0, {5, 6}});
  map.copies[1].set_state(1, CopyState::kStale);
  map.duplication = Duplication::kServerSync;
  map.reads = ReadPolicy::kAllCopies;
  map.placed = {{Reason::kTurn, Reason::kDisk}, 8, Reason::kNetwork};
  const std::uint32_t words[] = {2, 1,          1 << 20, 1, 1, 2, 1,  // to the read policy
                                 2,                                   // copies
                                 0, 2,          4,       2, 0,  // first index, servers, no states
                                 0, 2,          5,       6, 2, 0, 1,  // one state for each
                                 2, 0x02060000, 8,       4};          // reasons, what was skipped
  xdr::Encoder expected;
  for (const std::uint32_t word : words) expected.u32(word);
  const std::string stored = encode_layout_map(map);
  CHECK(std::ranges::equal(std::as_bytes(std::span(stored)), expected.bytes()));
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
  CHECK(broken([](LayoutMap& map) { map.copies.push_back({CopyState::kCurrent, 1, {1}}); }));
  const Copy other{CopyState::kCurrent, 1, {5, 6, 7}};
  CHECK_FALSE(broken([&](LayoutMap& map) { map.copies.push_back(other); }));
  CHECK(broken(
      [&](LayoutMap& map) { (map.copies.push_back(other), map.copies[1].first_index = 0); }));
  CHECK(
      broken([&](LayoutMap& map) { (map.copies.push_back(other), map.copies[1].ds_ids[2] = 4); }));
  CHECK(broken([](LayoutMap& map) { map.copies[0].states = {CopyState::kCurrent}; }));
  CHECK(broken([](LayoutMap& map) { map.copies[0].states.resize(3); }));
  CHECK(broken([](LayoutMap& map) {
    map.copies[0].set_state(0, CopyState::kStale);
    map.copies[0].state = CopyState::kCurrent;
  }));
  CHECK(broken([](LayoutMap& map) { map.duplication = static_cast<Duplication>(5); }));
  CHECK(broken([](LayoutMap& map) { map.reads = static_cast<ReadPolicy>(2); }));
  CHECK(broken([](LayoutMap& map) { map.placed.reasons = {Reason::kTurn}; }));
  CHECK(broken(
      [](LayoutMap& map) { map.placed.reasons.resize(3, static_cast<Reason>(kLastReason + 1)); }));
  CHECK(broken([](LayoutMap& map) { map.placed.skipped_for = Reason::kDisk; }));
}

TEST_CASE("states written longer than need be are refused") {
  const std::string stored = encode_layout_map(sample());
  // After format to read policy, the copies' count, first index and three servers: no states.
  const std::size_t at = 4 * (7 + 1 + 1 + 4);
  const auto with_states = [&](std::vector<std::uint32_t> states) {
    xdr::Encoder out;
    out.raw(std::as_bytes(std::span(stored)).first(at));
    out.u32(static_cast<std::uint32_t>(states.size()));
    for (const std::uint32_t state : states) out.u32(state);
    out.raw(std::as_bytes(std::span(stored)).subspan(at + 4));
    return decode_layout_map(out.bytes()).has_value();
  };
  CHECK(with_states({}));
  CHECK(with_states({1}));
  CHECK(with_states({0, 1, 2}));
  CHECK_FALSE(with_states({0}));
  CHECK_FALSE(with_states({3}));
  CHECK_FALSE(with_states({1, 1, 1}));
  CHECK_FALSE(with_states({0, 1}));
}

TEST_CASE("damaged maps are corrupt, other formats not supported") {
  const std::string stored = encode_layout_map(sample());
  for (std::size_t size = 0; size < stored.size(); ++size) {
    CHECK(decode_layout_map(std::string_view(stored).substr(0, size)).error() == Errc::kCorrupt);
  }
  CHECK(decode_layout_map(std::string_view(stored + '\0')).error() == Errc::kCorrupt);
  std::string later = stored;
  later[3] = 3;  // that of maps with vacant places
  CHECK(decode_layout_map(std::string_view(later)).error() == Errc::kCorrupt);
  later[3] = 4;
  CHECK(decode_layout_map(std::string_view(later)).error() == Errc::kNotSupported);
}
