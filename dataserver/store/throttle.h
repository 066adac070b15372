// Tells when the kernel makes writers wait: dirty pages beyond their limits, a journal's commit.
// While it does, writes go by io_uring, whose workers may wait without stopping a thread's
// connections.
//
// A write that took long may have waited, or its thread may only have been preempted; going by the
// ring then costs processor time and gains nothing. What tells them apart is a voluntary context
// switch in the middle of the write. Counting those is a system call, so it is done only for a
// while after a write that took long: the first long write is a suspicion, the next a fact.
//
// Threading: any thread; a Sample belongs to the thread that began it. Times are of a steady clock,
// in nanoseconds.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "rpc/base/clock.h"

namespace weft::ds {

[[nodiscard]] inline std::int64_t steady_now_ns() {
  return system_clock().now().time_since_epoch() / std::chrono::nanoseconds(1);
}

// How often the calling thread has given up its processor to wait for something.
[[nodiscard]] std::int64_t waits_of_this_thread();

class Throttle {
 public:
  static constexpr std::int64_t kLongNs = 5'000'000;       // what a write seldom takes
  static constexpr std::int64_t kWatchNs = 1'000'000'000;  // suspicion, after a long write
  static constexpr std::int64_t kRingNs = 100'000'000;     // by the ring, after one that waited

  using Waits = std::int64_t (*)();
  explicit Throttle(Waits waits = waits_of_this_thread) : waits_(waits) {}

  [[nodiscard]] bool active(std::int64_t now) const {
    return ring_until_.load(std::memory_order_relaxed) > now;
  }

  struct Sample {
    std::int64_t began;
    std::int64_t waits;  // kNotCounted
  };
  [[nodiscard]] Sample begin(std::int64_t now) const {
    const bool watch = watch_until_.load(std::memory_order_relaxed) > now;
    return {now, watch ? waits_() : kNotCounted};
  }
  void end(const Sample& sample, std::int64_t now) {
    if (now - sample.began <= kLongNs) return;
    watch_until_.store(now + kWatchNs, std::memory_order_relaxed);
    if (sample.waits != kNotCounted && waits_() != sample.waits) {
      ring_until_.store(now + kRingNs, std::memory_order_relaxed);
    }
  }

 private:
  static constexpr std::int64_t kNotCounted = -1;

  const Waits waits_;
  std::atomic<std::int64_t> watch_until_{0};
  std::atomic<std::int64_t> ring_until_{0};
};

}  // namespace weft::ds
