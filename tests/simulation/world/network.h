// The network between the simulated machines: TCP, and what can go wrong with it.
//
// Machine N has the address 10.0.0.(N+1); any address that a socket of its own is bound to, and
// 127.0.0.1, mean the machine itself. A connection is two streams of bytes. What is sent arrives in
// pieces, in order, each after a time that the seed draws; bytes that cannot get through are sent
// again when they can, or the connection ends with ETIMEDOUT, as TCP does it. Nothing is lost,
// doubled or changed that TCP does not lose: a test of the programs, not of TCP.
//
// Threading: as scheduler.h. These calls do not wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/simulation/world/scheduler.h"

namespace weft::sim::network {

[[nodiscard]] std::string address(unsigned node);

// Nothing gets from one to the other any more; connections stay, half-open, until they give up.
void cut(unsigned a, unsigned b);
void cut_one_way(unsigned from, unsigned to);
void heal(unsigned a, unsigned b);
// As cut() from every other machine, and back.
void isolate(unsigned node);
void rejoin(unsigned node);
// Ends every cut and isolation.
void heal_all();

// How long a piece takes, both ways: `base` and up to `spread` more. `lost_in_million` of them take
// TCP's time to send something again.
struct Delay {
  Ns base = 50 * kMicrosecond;
  Ns spread = 150 * kMicrosecond;
  std::uint64_t lost_in_million = 0;
};
void delay(unsigned a, unsigned b, const Delay& delay);
void delay_all(const Delay& delay);  // where delay() said nothing

// Both ends of each connection of the machine get ECONNRESET.
void reset_connections(unsigned node);

// The machine is off: its sockets are gone, and what is sent to it is lost. The threads that it had
// find every call on a socket failing, on those that they make now, too.
void kill(unsigned node);
// It is on again, and knows nothing of its old connections: who sends something on one is told so.
void revive(unsigned node);

struct Totals {
  std::uint64_t connected = 0;
  std::uint64_t refused = 0;
  std::uint64_t reset = 0;      // ends of connections that were told of a reset
  std::uint64_t timed_out = 0;  // ends that gave up, and attempts to connect
  std::uint64_t bytes = 0;      // that arrived
};
[[nodiscard]] const Totals& totals();
// Connections that something still refers to.
[[nodiscard]] std::size_t connections();

}  // namespace weft::sim::network
