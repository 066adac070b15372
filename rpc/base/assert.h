// WEFT_ASSERT: checks a promise of our own code, in every build, on any thread.
//
// assert(3) vanishes with NDEBUG, which RelWithDebInfo defines; this one stays on in release. It is
// for our own errors only: what a peer, a disk or a user sends is rejected, never asserted.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace weft {

[[noreturn]] inline void assert_failed(const char* what, const char* file, int line) {
  std::fprintf(stderr, "assertion failed: %s at %s:%d\n", what, file, line);
  std::abort();
}

}  // namespace weft

#define WEFT_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : ::weft::assert_failed(#condition, __FILE__, __LINE__))
