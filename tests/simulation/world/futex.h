// Where kernel threads of the simulation wait for real.
//
// Threading: give() by any thread, await() by one.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>

#include <atomic>
#include <cstdint>

namespace weft::sim {

// The system call itself: syscall(2) of the C library may be one of those that are replaced.
inline long raw_call(long number, long a = 0, long b = 0, long c = 0) {
  long result;
  register long none __asm__("r10") = 0;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(none)
                   : "rcx", "r11", "memory");
  return result;
}
inline long raw_futex(std::atomic<std::uint32_t>* word, int operation, std::uint32_t value) {
  return raw_call(SYS_futex, reinterpret_cast<long>(word), operation, value);
}

class Turn {
 public:
  void give() {
    word_.store(1, std::memory_order_release);
    raw_futex(&word_, FUTEX_WAKE_PRIVATE, 1);
  }
  void await() {
    while (word_.exchange(0, std::memory_order_acquire) == 0) {
      raw_futex(&word_, FUTEX_WAIT_PRIVATE, 0);
    }
  }

 private:
  std::atomic<std::uint32_t> word_{0};
};

}  // namespace weft::sim
