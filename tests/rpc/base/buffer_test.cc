#include "rpc/base/buffer.h"

#include <catch2/catch_test_macros.hpp>

using weft::Buffer;
using weft::BufferPool;
using weft::Errc;

TEST_CASE("a shared slice keeps the block until its last handle goes") {
  BufferPool pool(1 << 20);
  auto whole = pool.allocate(1000);
  REQUIRE(whole);
  REQUIRE(whole->unique());
  {
    auto part = whole->share(100, 50);
    REQUIRE(part);
    CHECK(part->data() == whole->data() + 100);
    CHECK_FALSE(whole->unique());
    whole->reset();
    CHECK(pool.in_use_bytes() == 4096);
  }
  CHECK(pool.in_use_bytes() == 0);
}

TEST_CASE("a slice outside its buffer is refused, overflow included") {
  BufferPool pool(1 << 20);
  auto whole = pool.allocate(1000);
  REQUIRE(whole);
  CHECK(whole->share(1000, 0));
  CHECK(whole->share(1001, 0).error() == Errc::kInvalid);
  CHECK(whole->share(1, 1000).error() == Errc::kInvalid);
  CHECK(whole->share(1, SIZE_MAX).error() == Errc::kInvalid);
}

TEST_CASE("the pool's limit holds and is given back") {
  BufferPool pool(64 << 10);
  auto first = pool.allocate(64 << 10);
  REQUIRE(first);
  CHECK(pool.allocate(1).error() == Errc::kBusy);
  CHECK(pool.allocate((64 << 10) + 1).error() == Errc::kTooLarge);
  first->reset();
  CHECK(pool.allocate(1));
}
