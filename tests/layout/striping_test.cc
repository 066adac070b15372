#include "layout/striping.h"

#include <rapidcheck.h>

#include <catch2/catch_test_macros.hpp>
#include <vector>

using namespace weft;
using namespace weft::layout;

namespace {

// Small units and counts, so that ranges cross many stripes.
rc::Gen<Striping> any_striping() {
  return rc::gen::exec([] {
    const auto count = *rc::gen::inRange<std::uint32_t>(1, 9);
    return Striping::make(64 * *rc::gen::inRange<std::uint32_t>(1, 5), count,
                          *rc::gen::inRange<std::uint32_t>(0, count))
        .value();
  });
}

}  // namespace

TEST_CASE("a striping a client would refuse is not made") {
  CHECK(Striping::make(64, 1));
  CHECK(Striping::make(1 << 20, 256, 255));
  CHECK(Striping::make(UINT32_MAX & ~63U, 2));
  CHECK_FALSE(Striping::make(0, 1));
  CHECK_FALSE(Striping::make(100, 1));
  CHECK_FALSE(Striping::make(64, 0));
  CHECK_FALSE(Striping::make(64, 257));
  CHECK_FALSE(Striping::make(64, 4, 4));
}

TEST_CASE("stripe units go round the servers, beginning at the first index") {
  const Striping striping = Striping::make(1024, 3, 2).value();
  CHECK(striping.server_of(0) == 2);
  CHECK(striping.server_of(1023) == 2);
  CHECK(striping.server_of(1024) == 0);
  CHECK(striping.server_of(2048) == 1);
  CHECK(striping.server_of(3072) == 2);
  CHECK(striping.server_of(UINT64_MAX) < 3);
}

TEST_CASE("splitting gives the parts of a range in order, whole and on the right servers") {
  CHECK(rc::check([] {
    const Striping striping = *any_striping();
    const auto offset = *rc::gen::inRange<std::uint64_t>(0, 4096);
    const auto length = *rc::gen::inRange<std::uint64_t>(0, 4096);
    std::uint64_t at = offset;
    RC_ASSERT(striping.split(offset, length, [&](const Extent& extent) {
      RC_ASSERT(extent.offset == at);
      RC_ASSERT(extent.length > 0U);
      RC_ASSERT(extent.server == striping.server_of(extent.offset));
      RC_ASSERT(extent.server == striping.server_of(extent.offset + extent.length - 1));
      if (striping.count() > 1) {
        RC_ASSERT(extent.offset / striping.unit_bytes() ==
                  (extent.offset + extent.length - 1) / striping.unit_bytes());
      }
      at += extent.length;
    }));
    RC_ASSERT(at == offset + length);
  }));
}

TEST_CASE("ranges at the end of what can be addressed do not wrap") {
  const Striping striping = Striping::make(1 << 20, 4).value();
  std::uint64_t total = 0;
  const auto add = [&](const Extent& extent) { total += extent.length; };
  REQUIRE(striping.split(kMaxFileSize - 10, 10, add));
  CHECK(total == 10);
  CHECK(striping.split(kMaxFileSize, 0, add));
  CHECK(striping.split(kMaxFileSize, 1, add).error() == Errc::kFileTooLarge);
  CHECK(striping.split(kMaxFileSize - 10, 11, add).error() == Errc::kFileTooLarge);
  CHECK(striping.split(UINT64_MAX, 1, add).error() == Errc::kFileTooLarge);
  CHECK(striping.split(1, UINT64_MAX, add).error() == Errc::kFileTooLarge);
  CHECK(striping.split(UINT64_MAX, UINT64_MAX, add).error() == Errc::kFileTooLarge);
  CHECK(total == 10);
}

TEST_CASE("one server takes a range in one piece") {
  const Striping striping = Striping::make(64, 1).value();
  std::vector<Extent> extents;
  REQUIRE(striping.split(10, 100000, [&](const Extent& e) { extents.push_back(e); }));
  CHECK(extents == std::vector<Extent>{{0, 10, 100000}});
}

TEST_CASE("an object's end is one past the last byte the server holds") {
  CHECK(rc::check([] {
    const Striping striping = *any_striping();
    const auto size = *rc::gen::inRange<std::uint64_t>(0, 8192);
    std::vector<std::uint64_t> ends(striping.count(), 0);
    for (std::uint64_t at = 0; at < size; ++at) ends[striping.server_of(at)] = at + 1;
    std::uint64_t greatest = 0;
    for (std::uint32_t server = 0; server < striping.count(); ++server) {
      RC_ASSERT(striping.object_end(server, size) == ends[server]);
      greatest = std::max(greatest, ends[server]);
    }
    // A file without holes is exactly as long as its longest object says.
    RC_ASSERT(greatest == size);
  }));
}

TEST_CASE("the next byte a server holds is the first that is its own") {
  CHECK(rc::check([] {
    const Striping striping = *any_striping();
    const auto offset = *rc::gen::inRange<std::uint64_t>(0, 8192);
    const auto server = *rc::gen::inRange<std::uint32_t>(0, striping.count());
    std::uint64_t at = offset;
    while (striping.server_of(at) != server) ++at;
    RC_ASSERT(striping.next_held(server, offset) == at);
  }));
  const Striping wide = Striping::make(UINT32_MAX & ~63U, 256).value();
  for (std::uint32_t server = 0; server < 256; ++server) {
    const std::uint64_t at = wide.next_held(server, kMaxFileSize);
    CHECK(at >= kMaxFileSize);
    CHECK(wide.server_of(at) == server);
  }
}

TEST_CASE("what a server holds below an end is counted, up to the largest file") {
  CHECK(rc::check([] {
    const Striping striping = *any_striping();
    const auto size = *rc::gen::inRange<std::uint64_t>(0, 8192);
    std::vector<std::uint64_t> held(striping.count(), 0);
    for (std::uint64_t at = 0; at < size; ++at) ++held[striping.server_of(at)];
    for (std::uint32_t server = 0; server < striping.count(); ++server) {
      RC_ASSERT(striping.held_below(server, size) == held[server]);
    }
  }));
  const Striping wide = Striping::make(UINT32_MAX & ~63U, 256).value();
  std::uint64_t total = 0;
  for (std::uint32_t server = 0; server < 256; ++server) {
    total += wide.held_below(server, kMaxFileSize);
  }
  CHECK(total == kMaxFileSize);
}

TEST_CASE("object ends hold at the largest file") {
  const Striping striping = Striping::make(1 << 20, 4, 1).value();
  std::uint64_t greatest = 0;
  for (std::uint32_t server = 0; server < 4; ++server) {
    const std::uint64_t end = striping.object_end(server, kMaxFileSize);
    CHECK(end <= kMaxFileSize);
    CHECK(kMaxFileSize - end < 4ULL << 20);
    greatest = std::max(greatest, end);
  }
  CHECK(greatest == kMaxFileSize);
}
