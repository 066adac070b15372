// Finding out that a data server's process is dead, and not just cut off from us.
//
// A data server whose control connection is lost serves its clients for a lease, so whoever wants
// it fenced waits for that lease to end. But a machine that lives and refuses connections to the
// data server's address says that no process listens there any more: it is dead, and one that is
// started again has its fences before it listens. So such a server counts as without a lease at
// once (Registry::found_dead), and what is held up by it goes on within a second of a crash.
//
// Only an answer of the machine itself may refuse: a firewall between us and data servers must drop
// packets, not answer for them (docs/troubleshooting.md).
//
// Threading: tick() from one thread. It blocks for at most a fraction of a second. Ownership: the
// registry and the clock outlive it.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <utility>

#include "ganesha-fsal/cluster/registry.h"
#include "rpc/base/clock.h"

namespace weft::mds {

class DeathProbe {
 public:
  // `close` ends the control connection of one that is dead, if it is still open: its machine is
  // gone, and another has its address.
  DeathProbe(Registry& registry, std::function<void(std::uint32_t ds_id)> close,
             const weft::Clock& clock)
      : registry_(registry), close_(std::move(close)), clock_(clock) {}

  // Asks at those that are gone or silent, and not known to be dead.
  void tick();

 private:
  Registry& registry_;
  const std::function<void(std::uint32_t)> close_;
  const weft::Clock& clock_;
  std::map<std::uint32_t, TimePoint> ask_again_;
};

// Whether connections to all of these addresses are refused. A machine that does not answer in time
// refuses nothing.
[[nodiscard]] bool refuses(std::span<const layout::NetAddress> addresses,
                           std::chrono::milliseconds patience);

}  // namespace weft::mds
