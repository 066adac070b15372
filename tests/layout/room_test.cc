#include "layout/room.h"

#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

namespace weft::layout {
namespace {

// Whether so many bytes fit with that many copies: no domain has a byte twice.
bool fits(const std::vector<std::uint64_t>& domains, unsigned copies, std::uint64_t bytes) {
  std::uint64_t places = 0;
  for (const std::uint64_t domain : domains) places += std::min(domain, bytes);
  return places >= copies * bytes;
}

}  // namespace

TEST_CASE("room for copies in different domains", "[layout]") {
  CHECK(room_for({100, 50}, 1) == 150);
  CHECK(room_for({100, 50}, 2) == 50);
  CHECK(room_for({100, 100, 100}, 2) == 150);
  CHECK(room_for({100, 10, 10}, 2) == 20);
  CHECK(room_for({100, 60, 50}, 2) == 105);
  CHECK(room_for({100, 100}, 3) == 0);
  CHECK(room_for({100, 90, 3}, 3) == 3);
  CHECK(room_for({}, 1) == 0);
  CHECK(room_for({UINT64_MAX, UINT64_MAX}, 1) == UINT64_MAX);
}

TEST_CASE("room is what fits, and no byte more", "[layout]") {
  CHECK(rc::check([] {
    const auto domains =
        *rc::gen::container<std::vector<std::uint64_t>>(rc::gen::inRange<std::uint64_t>(0, 1000));
    const auto copies = *rc::gen::inRange<unsigned>(1, 4);
    const std::uint64_t room = room_for(domains, copies);
    RC_ASSERT(room == 0 || fits(domains, copies, room));
    RC_ASSERT(!fits(domains, copies, room + 1));
  }));
}

}  // namespace weft::layout
