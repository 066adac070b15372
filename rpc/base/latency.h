// How long operations take: a histogram of few buckets, for metrics.
//
// The bounds are those of every histogram of ours, so that they can be added up and compared: from
// what the page cache answers to what a client notices as a stall.
//
// Threading: add() and total() from any threads, without locks; total() may miss what is being
// added just then. What many threads add to often belongs in a Latency of each (one in a thread's
// own cell, or SharedLatency).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "rpc/base/clock.h"

namespace weft {

// The greatest duration that each bucket holds; a last bucket holds what is longer.
inline constexpr std::array<Nanoseconds, 11> kLatencyBounds{
    std::chrono::microseconds{100}, std::chrono::microseconds{300}, std::chrono::milliseconds{1},
    std::chrono::milliseconds{3},   std::chrono::milliseconds{10},  std::chrono::milliseconds{30},
    std::chrono::milliseconds{100}, std::chrono::milliseconds{300}, std::chrono::seconds{1},
    std::chrono::seconds{3},        std::chrono::seconds{10}};

struct LatencyTotals {
  std::array<std::uint64_t, kLatencyBounds.size() + 1> buckets{};  // not cumulative
  std::uint64_t sum_ns = 0;
};

class Latency {
 public:
  void add(Nanoseconds took) {
    const auto* bound = std::ranges::lower_bound(kLatencyBounds, took);
    const auto bucket = static_cast<std::size_t>(bound - kLatencyBounds.begin());
    buckets_[bucket].fetch_add(1, std::memory_order_relaxed);
    const auto ns = std::max<Nanoseconds::rep>(took.count(), 0);
    sum_ns_.fetch_add(static_cast<std::uint64_t>(ns), std::memory_order_relaxed);
  }
  void add_to(LatencyTotals& totals) const {
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      totals.buckets[i] += buckets_[i].load(std::memory_order_relaxed);
    }
    totals.sum_ns += sum_ns_.load(std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<std::uint64_t>, kLatencyBounds.size() + 1> buckets_{};
  std::atomic<std::uint64_t> sum_ns_{0};
};

// One for threads that nobody counts: each adds to one of a few cells.
class SharedLatency {
 public:
  void add(Nanoseconds took) { cells_[cell_of_thread()].latency.add(took); }
  [[nodiscard]] LatencyTotals total() const {
    LatencyTotals sum;
    for (const Cell& cell : cells_) cell.latency.add_to(sum);
    return sum;
  }

 private:
  static constexpr std::size_t kCells = 16;
  struct alignas(64) Cell {
    Latency latency;
  };
  static std::size_t cell_of_thread() {
    static std::atomic<std::size_t> threads{0};
    thread_local const std::size_t mine = threads.fetch_add(1, std::memory_order_relaxed) % kCells;
    return mine;
  }
  std::array<Cell, kCells> cells_;
};

}  // namespace weft
