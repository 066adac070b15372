#include "ganesha-fsal/meta/schema/keys.h"

#include <rapidcheck.h>

#include <catch2/catch_test_macros.hpp>

using namespace weft::mds;
using keys::Prefix;

TEST_CASE("keys sort as their numbers do") {
  CHECK(rc::check([](std::uint64_t a, std::uint64_t b) {
    RC_ASSERT((keys::inode(a) < keys::inode(b)) == (a < b));
    RC_ASSERT((keys::cookie(7, a) < keys::cookie(7, b)) == (a < b));
    RC_ASSERT((keys::cookie(a, 9) < keys::cookie(b, 8)) == (a < b));
  }));
}

TEST_CASE("keys parse to what they were made of") {
  CHECK(rc::check([](std::uint64_t id, std::uint64_t other, std::uint32_t small) {
    RC_ASSERT(keys::parse_number(Prefix::kInode, keys::inode(id))->id == id);
    const auto cookie = keys::parse_cookie(keys::cookie(id, other));
    RC_ASSERT((cookie->dir == id && cookie->cookie == other));
    const auto reverse = keys::parse_reverse(keys::reverse(small, id, 3));
    RC_ASSERT((reverse->ds_id == small && reverse->id == id && reverse->generation == 3));
    const auto removal = keys::parse_removal(keys::removal(id, small));
    RC_ASSERT((removal->id == id && removal->generation == small));
    RC_ASSERT(keys::parse_writers(keys::writers(id))->id == id);
    const auto stale = keys::parse_stale(keys::stale(small, id, 3));
    RC_ASSERT((stale->ds_id == small && stale->id == id && stale->copy == 3));
    RC_ASSERT(!keys::parse_writers(keys::stale(small, id, 3)));
    RC_ASSERT(!keys::parse_stale(keys::writers(id)));
  }));
  const std::string key = keys::entry(5, "name");
  CHECK(keys::parse_named(Prefix::kEntry, key)->name == "name");
  CHECK_FALSE(keys::parse_named(Prefix::kXattr, key));
  CHECK_FALSE(keys::parse_number(Prefix::kEntry, key));
  CHECK_FALSE(keys::parse_cookie(""));
}

TEST_CASE("a range has all keys under a number and no others") {
  CHECK(rc::check([](std::uint64_t id, const std::string& name) {
    const auto range = keys::under(Prefix::kEntry, id);
    const auto inside = [&](const std::string& key) {
      return range.begin <= key && key < range.end;
    };
    RC_ASSERT(inside(keys::entry(id, name)));
    RC_ASSERT(!inside(keys::entry(id + 1, name)));
    RC_ASSERT(!inside(keys::entry(id - 1, name)));
  }));
  const auto last = keys::under(Prefix::kEntry, UINT64_MAX);
  CHECK(keys::entry(UINT64_MAX, "\xff\xff") < last.end);
  const auto reverse = keys::reverse_of(UINT32_MAX);
  CHECK(keys::reverse(UINT32_MAX, UINT64_MAX, UINT32_MAX) < reverse.end);
  const auto stale = keys::stale_of(UINT32_MAX);
  CHECK(keys::stale(UINT32_MAX, UINT64_MAX, UINT32_MAX) < stale.end);
  CHECK(keys::writers(0) > stale.end.substr(0, 1));
  CHECK(keys::stale(8, 0, 0) >= keys::stale_of(7).end);
  CHECK(keys::writers(UINT64_MAX) < keys::all_writers().end);
  CHECK(keys::stale(UINT32_MAX, 1, 1) < keys::all_writers().begin);
}
