#include "layout/relocation.h"

#include <rapidcheck.h>

#include <catch2/catch_test_macros.hpp>

using namespace weft;
using namespace weft::layout;

namespace {

LayoutMap map_of(std::vector<std::vector<std::uint32_t>> copies) {
  LayoutMap map;
  map.stripe_unit = 64;
  for (auto& ids : copies) map.copies.push_back({CopyState::kCurrent, 0, std::move(ids), {}});
  if (map.copies.size() > 1) map.duplication = Duplication::kServerSync;
  const std::size_t stripes = map.copies.front().ds_ids.size();
  map.placed.reasons.assign(stripes, Reason::kTurn);
  map.placed.reasons.resize(stripes * map.copies.size(), Reason::kMirror);
  return map;
}

Candidate server(std::uint32_t id, std::string domain, std::uint64_t free = 500 << 20) {
  return {.ds_id = id,
          .state = ServerState::kUp,
          .capacity_bytes = 1000 << 20,
          .free_bytes = free,
          .domain = std::move(domain),
          .load = {}};
}

}  // namespace

TEST_CASE("a newcomer is added besides, and takes the place when it is current") {
  const LayoutMap before = map_of({{1, 2}, {3, 4}});
  LayoutMap map = before;
  add_seat(map, 1, 9);
  REQUIRE(validate(map));
  REQUIRE(map.copies.size() == 3);
  CHECK(map.copies[2].ds_ids == std::vector<std::uint32_t>{0, 9});
  CHECK(map.copies[2].state_of(0) == CopyState::kVacant);
  CHECK(map.copies[2].state_of(1) == CopyState::kStale);
  CHECK(map.copies[2].state == CopyState::kVacant);
  CHECK(seats_at(map, 0) == 2);
  CHECK(seats_at(map, 1) == 3);
  CHECK_FALSE(has_room_at(map, 1));
  CHECK(decode_layout_map(encode_layout_map(map)).value() == map);

  LayoutMap undone = map;
  drop_seat(undone, 9);
  CHECK(undone == before);

  map.copies[2].set_state(1, CopyState::kCurrent);
  take_seat(map, 2, 9);
  REQUIRE(validate(map));
  CHECK(map.copies.size() == 2);
  CHECK(map.copies[0].ds_ids == std::vector<std::uint32_t>{1, 9});
  CHECK(map.copies[0].state == CopyState::kCurrent);
  CHECK(map.placed.reasons ==
        std::vector{Reason::kTurn, Reason::kMoved, Reason::kMirror, Reason::kMirror});
  CHECK(decode_layout_map(encode_layout_map(map)).value() == map);
}

TEST_CASE("a file with one copy has a duplication while it is moved, and none after") {
  LayoutMap map = map_of({{1}});
  add_seat(map, 0, 2);
  CHECK(map.duplication == Duplication::kServerSync);
  CHECK(map.copies[1].state == CopyState::kStale);
  CHECK(map.copies[1].states.empty());
  map.copies[1].set_state(0, CopyState::kCurrent);
  take_seat(map, 1, 2);
  CHECK(map.duplication == Duplication::kNone);
  CHECK(map.copies.size() == 1);
  CHECK(map.copies[0].ds_ids == std::vector<std::uint32_t>{2});

  map.type = LayoutType::kFlexFiles;
  add_seat(map, 0, 3);
  CHECK(map.duplication == Duplication::kClientSync);
}

TEST_CASE("three copies have no room for a fourth; a stale one is replaced where it is") {
  LayoutMap map = map_of({{1}, {2}, {3}});
  CHECK_FALSE(has_room_at(map, 0));
  map.copies[1].set_state(0, CopyState::kStale);
  replace_seat(map, 2, 4);
  REQUIRE(validate(map));
  CHECK(map.copies[1].ds_ids == std::vector<std::uint32_t>{4});
  CHECK(map.copies[1].state == CopyState::kStale);
}

TEST_CASE("only the last copy may have vacant places, and not all are") {
  LayoutMap map = map_of({{1, 2}, {3, 4}});
  add_seat(map, 0, 9);
  std::swap(map.copies[1], map.copies[2]);
  CHECK_FALSE(validate(map));
  map = map_of({{1, 2}});
  map.copies.push_back({CopyState::kVacant, 0, {0, 0}, {}});
  CHECK_FALSE(validate(map));
  map = map_of({{1, 2}});
  map.copies[0].ds_ids[1] = 0;
  CHECK_FALSE(validate(map));
  map = map_of({{1, 2}, {3, 4}});
  map.copies[1].set_state(0, CopyState::kVacant);  // and an id
  CHECK_FALSE(validate(map));
}

TEST_CASE("the successor is up, elsewhere, in another domain, and has room") {
  const LayoutMap map = map_of({{1}, {2}});
  std::vector servers{server(1, "a"), server(2, "b"), server(3, "b", 900 << 20),
                      server(4, "a", 300 << 20), server(5, "c", 400 << 20)};
  CHECK(choose_successor(map, 1, servers, {}).value() == 5);
  CHECK(choose_successor(map, 1, servers, {.wanted_bytes = 600 << 20}).error() ==
        Errc::kLayoutUnavailable);  // only 3 has room, beside 2
  CHECK(choose_successor(map, 1, servers, {.wanted_bytes = 2000ull << 20}).error() ==
        Errc::kNoSpace);
  // The one with work under way comes after.
  SuccessorRules busy;
  busy.under_way = [](std::uint32_t id) { return id == 5 ? 1U : 0U; };
  CHECK(choose_successor(map, 1, servers, busy).value() == 4);
  // What is coming takes room, to the last byte.
  SuccessorRules filled{.wanted_bytes = 200 << 20};
  for (const std::uint64_t more : {0, 1}) {
    filled.coming = [more](std::uint32_t id) { return id == 5 ? (136ULL << 20) + more : 0; };
    CHECK(choose_successor(map, 1, servers, filled).value() == (more == 0 ? 5 : 4));
  }
  filled.coming = [](std::uint32_t) { return UINT64_MAX; };
  CHECK(choose_successor(map, 1, servers, filled).error() == Errc::kNoSpace);
  servers[3].state = servers[4].state = ServerState::kDraining;
  CHECK(choose_successor(map, 1, servers, {}).error() == Errc::kLayoutUnavailable);
  // Copies that share a domain already may go on doing so.
  servers[0].domain = "b";
  CHECK(choose_successor(map, 1, servers, {}).value() == 3);
  CHECK(choose_successor(map, 7, servers, {}).error() == Errc::kInvalid);
}

TEST_CASE("any map that is moved about stays valid and comes back from disk") {
  rc::check([] {
    const auto width = *rc::gen::inRange<std::size_t>(1, 5);
    const auto copies = *rc::gen::inRange<std::size_t>(1, 3);
    std::vector<std::vector<std::uint32_t>> ids(copies);
    std::uint32_t next = 1;
    for (auto& copy : ids) {
      for (std::size_t i = 0; i < width; ++i) copy.push_back(next++);
    }
    LayoutMap map = map_of(ids);
    for (int round = 0; round < 8; ++round) {
      const auto stripe = *rc::gen::inRange<std::size_t>(0, width);
      const auto copy = *rc::gen::inRange<std::size_t>(0, copies);
      const std::uint32_t from = map.copies[copy].ds_ids[stripe];
      const std::uint32_t to = next++;
      add_seat(map, stripe, to);
      RC_ASSERT(validate(map).has_value());
      RC_ASSERT(decode_layout_map(encode_layout_map(map)).value() == map);
      if (*rc::gen::arbitrary<bool>()) {
        drop_seat(map, to);
        RC_ASSERT(seat_of(map, from).has_value());
      } else {
        map.copies.back().set_state(stripe, CopyState::kCurrent);
        take_seat(map, from, to);
        RC_ASSERT(!seat_of(map, from));
        RC_ASSERT(seat_of(map, to) == Seat(copy, stripe));
      }
      RC_ASSERT(validate(map).has_value());
      RC_ASSERT(map.copies.size() == copies);
      RC_ASSERT(decode_layout_map(encode_layout_map(map)).value() == map);
    }
  });
}
