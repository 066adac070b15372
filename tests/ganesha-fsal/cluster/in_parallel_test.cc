// What is done beside each other is done where no more threads can be had, too.
#include "ganesha-fsal/cluster/in_parallel.h"

#include <pthread.h>

#include <array>
#include <atomic>
#include <catch2/catch_test_macros.hpp>

namespace weft::mds {
namespace {

constexpr std::size_t kCount = 8;

bool all_done() {
  std::array<std::atomic<int>, kCount> done{};
  in_parallel(kCount, kCount, [&](std::size_t i) { ++done[i]; });
  for (const auto& one : done) {
    if (one != 1) return false;
  }
  return true;
}

TEST_CASE("each is done once") { CHECK(all_done()); }

// There is no room for a thread's stack: for root, too, it is as if no more threads were allowed.
TEST_CASE("where no thread can be had the caller does it all") {
  pthread_attr_t before{};
  pthread_attr_t huge{};
  REQUIRE(::pthread_getattr_default_np(&before) == 0);
  REQUIRE(::pthread_getattr_default_np(&huge) == 0);
  REQUIRE(::pthread_attr_setstacksize(&huge, std::size_t{1} << 47) == 0);
  REQUIRE(::pthread_setattr_default_np(&huge) == 0);
  const bool done = all_done();
  REQUIRE(::pthread_setattr_default_np(&before) == 0);
  ::pthread_attr_destroy(&huge);
  ::pthread_attr_destroy(&before);
  CHECK(done);
}

}  // namespace
}  // namespace weft::mds
