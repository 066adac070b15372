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
inline long raw_futex(std::atomic<std::uint32_t>* word, int operation, std::uint32_t value) {
  long result;
  register long timeout __asm__("r10") = 0;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(SYS_futex), "D"(word), "S"(operation), "d"(value), "r"(timeout)
                   : "rcx", "r11", "memory");
  return result;
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
