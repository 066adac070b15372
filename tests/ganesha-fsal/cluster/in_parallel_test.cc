// What is done beside each other is done where no more threads can be had, too.
#include "ganesha-fsal/cluster/in_parallel.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

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

// A thread's stack does not fit any more: as when a control group allows no more threads, for root
// as well.
[[noreturn]] void child() {
  const struct rlimit none{0, 0};
  ::_exit(::setrlimit(RLIMIT_AS, &none) == 0 && all_done() ? 0 : 1);
}

TEST_CASE("each is done once") { CHECK(all_done()); }

TEST_CASE("where no thread can be had the caller does it all") {
  const pid_t pid = ::fork();
  if (pid == 0) child();
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  CHECK(status == 0);
}

}  // namespace
}  // namespace weft::mds
