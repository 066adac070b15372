// What a data server has done since its process started.
//
// Threading: each I/O thread counts in a cell of its own, so counting costs no shared cache line;
// total() may be called from any thread and may miss what is being counted just then.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "dataserver/load/streams.h"
#include "dataserver/ring/io_ring.h"
#include "layout/handle.h"
#include "rpc/base/assert.h"
#include "rpc/base/latency.h"

namespace weft::ds {

class Counter {
 public:
  void add(std::uint64_t n = 1) { value_.store(get() + n, std::memory_order_relaxed); }
  void subtract(std::uint64_t n = 1) { value_.store(get() - n, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};  // written by one thread
};

// T is Counter for a thread's own cell, std::uint64_t for a sum.
template <class T>
struct CountersOf {
  T reads{};
  T writes{};
  T commits{};
  T read_bytes{};          // by clients, and by the metadata server for clients
  T partner_read_bytes{};  // by data servers, which make copies equal
  T write_bytes{};
  T zero_copy_bytes{};  // of both, those that never entered this process
  T errors{};           // READ, WRITE, COMMIT answered with an error
  T refused{};          // handles that are forged, foreign or fenced, or lack the right
  T size_queries{};     // asked of the metadata server
  T size_reports{};     // told to the metadata server
  T running{};          // operations now
};

using CounterTotals = CountersOf<std::uint64_t>;

// The operations whose time is taken, and how long those took that are answered.
enum class TimedOp : std::uint8_t { kRead, kWrite, kCommit };
inline constexpr std::size_t kTimedOps = 3;
using TimesOfOps = std::array<LatencyTotals, kTimedOps>;

class Counters {
 public:
  struct alignas(64) Cell : CountersOf<Counter> {
    // A READ or WRITE of this stream came.
    void stream(const layout::Handle& handle) {
      streams.note(handle.client_id, handle.object.fileid);
    }
    StreamSketch streams;
    std::array<Latency, kTimedOps> took;
  };

  explicit Counters(unsigned threads) : cells_(threads) {}

  // The calling I/O thread's.
  [[nodiscard]] Cell& mine() {
    const IoRing* ring = IoRing::current();
    WEFT_ASSERT(ring != nullptr && ring->index() < cells_.size());
    return cells_[ring->index()];
  }

  // How many streams did I/O since the last call; from one thread.
  [[nodiscard]] std::uint32_t take_streams() {
    StreamSketch::Bits bits{};
    for (Cell& cell : cells_) cell.streams.take(bits);
    return StreamSketch::estimate(bits);
  }

  [[nodiscard]] CounterTotals total() const {
    CounterTotals sum;
    for (const Cell& cell : cells_) {
      sum.reads += cell.reads.get();
      sum.writes += cell.writes.get();
      sum.commits += cell.commits.get();
      sum.read_bytes += cell.read_bytes.get();
      sum.partner_read_bytes += cell.partner_read_bytes.get();
      sum.write_bytes += cell.write_bytes.get();
      sum.zero_copy_bytes += cell.zero_copy_bytes.get();
      sum.errors += cell.errors.get();
      sum.refused += cell.refused.get();
      sum.size_queries += cell.size_queries.get();
      sum.size_reports += cell.size_reports.get();
      sum.running += cell.running.get();
    }
    return sum;
  }

  [[nodiscard]] TimesOfOps times() const {
    TimesOfOps sum{};
    for (const Cell& cell : cells_) {
      for (std::size_t op = 0; op < kTimedOps; ++op) cell.took[op].add_to(sum[op]);
    }
    return sum;
  }

 private:
  std::vector<Cell> cells_;
};

}  // namespace weft::ds
