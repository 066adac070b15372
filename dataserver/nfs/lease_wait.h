// Where requests wait while the data server has no lease (lease.h).
//
// NFS4ERR_DELAY would make a Linux client sleep for 15 s, however soon the lease is back. So its
// requests wait here instead, and cost what the absence of the metadata server lasts. When
// too much waits already, they are answered NFS4ERR_DELAY after all. Those of clients that waited
// until the deadline are refused: the metadata server may be there for them, and another copy.
//
// What a WRITE that waits has sent stays in the pool's memory or in a pipe. No request waits while
// half of the pool is in use, so that there is memory for the metadata server's own I/O.
//
// Threading: wait() on an I/O thread with its ring bound; `go` runs on the same one, not within
// wait() unless it cannot wait. waiting() and give_up() from any thread.
//
// Ownership: all that the constructor is given outlives this, and this outlives the threads' run.
//
// Invariants:
//  1. Every `go` is called exactly once, at the latest a poll after its deadline.
//  2. At most limits.max_waiting wait on each thread.
//  3. They go on in the order in which they came.
#pragma once

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "dataserver/nfs/lease.h"
#include "dataserver/ring/io_ring.h"
#include "rpc/base/buffer.h"
#include "rpc/base/clock.h"

namespace weft::ds {

struct LeaseWaitLimits {
  std::size_t max_waiting = 1024;              // on each I/O thread
  std::chrono::milliseconds deadline{10'000};  // well below the 60 s of a Linux client
  std::chrono::milliseconds poll{10};
};

class LeaseWait {
 public:
  enum class End : std::uint8_t {
    kHeld,    // there is a lease
    kInVain,  // there was none until the deadline
    kNot,     // it could not wait, or everything ends
  };
  using Go = std::move_only_function<void(End end)>;

  // One ring for each I/O thread, in the order of their index.
  LeaseWait(const Lease& lease, const BufferPool& pool, const std::vector<IoRing*>& rings,
            const Clock& clock, LeaseWaitLimits limits = {});

  void wait(Go go);
  // Nothing waits any more, nor from now on; for shutting down.
  void give_up();
  [[nodiscard]] std::size_t waiting() const { return waiting_.load(std::memory_order_relaxed); }

 private:
  struct Waiter {
    Go go;
    TimePoint deadline;
  };
  struct alignas(64) PerThread {
    explicit PerThread(IoRing& ring) : ring(ring), timer(ring.context()) {}
    IoRing& ring;
    boost::asio::steady_timer timer;
    std::deque<Waiter> waiters;
  };
  void poll_later(PerThread& mine);
  void poll(PerThread& mine);

  const Lease& lease_;
  const BufferPool& pool_;
  const Clock& clock_;
  const LeaseWaitLimits limits_;
  std::vector<std::unique_ptr<PerThread>> threads_;
  std::atomic<bool> given_up_{false};
  std::atomic<std::size_t> waiting_{0};
};

}  // namespace weft::ds
