// How long a data server may serve clients without hearing from the metadata server.
//
// The metadata server takes a client's right back by telling the data servers (a fence). One that
// it cannot reach cannot be told; so each serves only for a lease, counted from when it *sent* the
// latest heartbeat that was answered with one, and after that refuses clients until it has
// registered again and has the fences it missed. The metadata server counts from when it answered,
// which is later, and a margin on top for clocks that run differently (Registry::lapse()): it then
// takes the data server for fenced.
//
// A server whose heartbeats are not answered is out of touch long before its lease ends: as soon as
// the metadata server, if it is there, may count it as gone (Registry::Options::gone_after_silence)
// and ask for the layouts that name it. What waits for the metadata server then has waited enough:
// clients are to go elsewhere and give these layouts back.
//
// The clock goes on while the machine is suspended, and of course while the process is stopped.
//
// Threading: held() and in_touch() on any thread, a load and a reading of the clock; the rest on
// one.
#pragma once

#include <atomic>
#include <chrono>

#include "rpc/base/clock.h"

namespace weft::ds {

class Lease {
 public:
  static constexpr std::chrono::seconds kSilence{5};

  // Not held until renewed. The clock outlives the lease.
  explicit Lease(const Clock& clock) : clock_(clock) {}

  // What was asked for at `sent` was granted; or was answered, and no lease given (0).
  void renew(TimePoint sent, std::chrono::seconds length) {
    in_touch_until_.store((sent + kSilence).time_since_epoch().count());
    if (length.count() == 0 || sent <= ended_) return;
    until_.store((sent + length).time_since_epoch().count());
  }
  // It is not held from now on, whatever was asked for until now. On the thread that renews.
  void end() {
    ended_ = clock_.now();
    until_.store(TimePoint::min().time_since_epoch().count());
  }
  // For servers without a metadata server, in tests.
  void never_ends() {
    in_touch_until_.store(TimePoint::max().time_since_epoch().count());
    until_.store(TimePoint::max().time_since_epoch().count());
  }

  [[nodiscard]] bool held() const { return before(until_); }
  [[nodiscard]] bool in_touch() const { return before(in_touch_until_); }

 private:
  using Instant = std::atomic<TimePoint::rep>;

  [[nodiscard]] bool before(const Instant& instant) const {
    return clock_.now().time_since_epoch().count() < instant.load(std::memory_order_relaxed);
  }

  const Clock& clock_;
  TimePoint ended_ = TimePoint::min();
  Instant until_{TimePoint::min().time_since_epoch().count()};
  Instant in_touch_until_{TimePoint::min().time_since_epoch().count()};
};

}  // namespace weft::ds
