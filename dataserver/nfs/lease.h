// How long a data server may serve clients without hearing from the metadata server.
//
// The metadata server takes a client's right back by telling the data servers (a fence). One that
// it cannot reach cannot be told; so each serves only for a lease, counted from when it *sent* the
// latest heartbeat that was answered with one, and after that refuses clients until it has
// registered again and has the fences it missed. The metadata server counts from when it answered,
// which is later, and a margin on top for clocks that run differently (Registry::lapse()): it then
// takes the data server for fenced.
//
// The clock goes on while the machine is suspended, and of course while the process is stopped.
//
// Threading: held() on any thread, a load and a reading of the clock; the rest on one.
#pragma once

#include <atomic>
#include <chrono>

#include "rpc/base/clock.h"

namespace weft::ds {

class Lease {
 public:
  // Not held until renewed. The clock outlives the lease.
  explicit Lease(const Clock& clock) : clock_(clock) {}

  // What was asked for at `sent` was granted.
  void renew(TimePoint sent, std::chrono::seconds length) {
    if (sent <= ended_) return;
    until_.store((sent + length).time_since_epoch().count());
  }
  // It is not held from now on, whatever was asked for until now. On the thread that renews.
  void end() {
    ended_ = clock_.now();
    until_.store(TimePoint::min().time_since_epoch().count());
  }
  // For servers without a metadata server, in tests.
  void never_ends() { until_.store(TimePoint::max().time_since_epoch().count()); }

  [[nodiscard]] bool held() const {
    return clock_.now().time_since_epoch().count() < until_.load(std::memory_order_relaxed);
  }

 private:
  const Clock& clock_;
  TimePoint ended_ = TimePoint::min();
  std::atomic<TimePoint::rep> until_{TimePoint::min().time_since_epoch().count()};
};

}  // namespace weft::ds
