// An eventfd that is rung, watched and never read.
#include "rpc/transport/shm/bell.h"

#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <optional>

using namespace weft;
using namespace weft::rpc;

TEST_CASE("a bell is heard each time it is rung, and is never read") {
  boost::asio::io_context context{1};
  const auto fd = Bell::make().value();
  auto kept = std::make_shared<int>(0);
  Bell bell{OwnedFd(::dup(fd.get()))};
  REQUIRE(Bell::ring(fd.get()));  // before anybody listens
  REQUIRE(bell.listen(context, [kept] { ++*kept; }));
  context.poll();
  CHECK(*kept == 1);
  for (int times = 2; times < 50; ++times) {
    CHECK(context.poll() == 0);
    REQUIRE(Bell::ring(fd.get()));
    REQUIRE(Bell::ring(fd.get()));
    context.poll();
    CHECK(*kept == times);
  }
  bell.stop();
  REQUIRE(Bell::ring(fd.get()));
  context.poll();
  CHECK(*kept == 49);
  CHECK(kept.use_count() == 1);
  std::uint64_t rings = 0;
  CHECK(::read(fd.get(), &rings, sizeof rings) == sizeof rings);
  CHECK(rings == 1 + 2 * 48 + 1);
}

TEST_CASE(
    "a bell may be stopped while it rings, and its context destroyed while it is listened to") {
  std::optional<boost::asio::io_context> context{std::in_place, 1};
  const auto fd = Bell::make().value();
  auto kept = std::make_shared<int>(0);
  Bell bell{OwnedFd(::dup(fd.get()))};
  SECTION("stopped") {
    REQUIRE(bell.listen(*context, [kept, &bell] {
      bell.stop();
      ++*kept;
    }));
    REQUIRE(Bell::ring(fd.get()));
    context->run();  // there is no work without a listener
    CHECK(*kept == 1);
    CHECK(kept.use_count() == 1);
    context.reset();
  }
  SECTION("stopped, and the context never run again") {
    REQUIRE(bell.listen(*context, [kept] { ++*kept; }));
    bell.stop();
    context.reset();
  }
  SECTION("listened to, and the Bell destroyed with the context") {
    auto last = std::make_shared<Bell>(OwnedFd(::dup(fd.get())));
    Bell& it = *last;
    REQUIRE(it.listen(*context, [kept, last = std::move(last)] { ++*kept; }));
    context.reset();
  }
  CHECK(kept.use_count() == 1);
}

TEST_CASE("a bell that does not wake says so") {
  const auto fd = Bell::make().value();
  const std::uint64_t most = ~std::uint64_t{0} - 1;  // that a counter holds
  REQUIRE(::write(fd.get(), &most, sizeof most) == sizeof most);
  CHECK_FALSE(Bell::ring(fd.get()));
  CHECK_FALSE(Bell::ring(-1));
}
