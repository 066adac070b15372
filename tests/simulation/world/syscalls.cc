// syscall(2), by which std::atomic waits and by which code calls what the C library has no function
// for. What the simulation does not know goes to the real system.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/openat2.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdint>

#include "tests/simulation/world/by_address.h"
#include "tests/simulation/world/disk_work.h"
#include "tests/simulation/world/files.h"
#include "tests/simulation/world/real.h"
#include "tests/simulation/world/scheduler.h"
#include "tests/simulation/world/times.h"

namespace weft::sim {

namespace {

constexpr long kCachestat = 451;

int failed(int error) {
  errno = error;
  return -1;
}

long wait_futex(const std::uint32_t* word, int operation, std::uint32_t value,
                const timespec* timeout) {
  Ns deadline = kNever;
  if (timeout != nullptr) {
    const bool absolute = (operation & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;
    const bool real_time = (operation & FUTEX_CLOCK_REALTIME) != 0;
    deadline = absolute ? from_timespec(real_time ? CLOCK_REALTIME : CLOCK_MONOTONIC, *timeout)
                        : now() + to_ns(*timeout);
  }
  preempt();
  if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != value) return failed(EAGAIN);
  return wait_at(word, deadline) ? 0 : failed(ETIMEDOUT);
}
long wake_futex(const std::uint32_t* word, std::uint32_t count) {
  long woken = 0;
  if (count >= INT_MAX) {
    wake_at(word, true);
  } else {
    for (; woken < count; ++woken) wake_at(word, false);
  }
  preempt();
  return woken;
}

long futex(const long* arguments) {
  const auto* const word = reinterpret_cast<const std::uint32_t*>(arguments[0]);
  const auto operation = static_cast<int>(arguments[1]);
  const auto value = static_cast<std::uint32_t>(arguments[2]);
  switch (operation & FUTEX_CMD_MASK) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET:
      return wait_futex(word, operation, value, reinterpret_cast<const timespec*>(arguments[3]));
    case FUTEX_WAKE:
    case FUTEX_WAKE_BITSET: return wake_futex(word, value);
    default: return failed(ENOSYS);
  }
}

long open_how_file(const long* arguments) {
  const auto* const how = reinterpret_cast<const open_how*>(arguments[2]);
  // What the kernel has not in memory it would have to read.
  if ((how->resolve & RESOLVE_CACHED) != 0 && chance(50'000)) return failed(EAGAIN);
  return open_file(static_cast<int>(arguments[0]), reinterpret_cast<const char*>(arguments[1]),
                   static_cast<int>(how->flags), static_cast<mode_t>(how->mode));
}

struct Cachestat {
  std::uint64_t cached;
  std::uint64_t dirty;
  std::uint64_t writeback;
  std::uint64_t evicted;
  std::uint64_t recently_evicted;
};
// Mostly everything is in memory, now and then nothing.
long cachestat(const long* arguments) {
  const auto* const range = reinterpret_cast<const std::uint64_t*>(arguments[1]);
  auto* const out = reinterpret_cast<Cachestat*>(arguments[2]);
  *out = {};
  if (chance(50'000) || range[1] == 0) return 0;
  out->cached = (range[0] + range[1] - 1) / disk::kPage - range[0] / disk::kPage + 1;
  return 0;
}

}  // namespace

}  // namespace weft::sim

using namespace weft;  // NOLINT: what follows has names of the C library

extern "C" long syscall(long number, ...) {
  long a[6];
  va_list more;
  va_start(more, number);
  for (long& argument : a) argument = va_arg(more, long);
  va_end(more);
  if (sim::active()) {
    switch (number) {
      case SYS_futex: return sim::futex(a);
      case SYS_openat2: return sim::open_how_file(a);
      case sim::kCachestat: return sim::cachestat(a);
      case SYS_gettid: return ::gettid();
      case SYS_getpid: return ::getpid();
      case SYS_getrandom:
        return ::getrandom(reinterpret_cast<void*>(a[0]), static_cast<size_t>(a[1]), 0);
      case SYS_io_uring_setup: return sim::failed(ENOSYS);
      default: break;
    }
  }
  return WEFT_REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
