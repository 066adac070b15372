// A simulation for a test: in a child process, since a process has one at most.
//
// Threading: for the thread of a process that has no other.
#pragma once

#include <cstdint>
#include <functional>

#include "tests/simulation/world/scheduler.h"

namespace weft::sim {

// What holds in a simulation: tells where and ends the child with status 2 if it does not.
#define SIM_CHECK(holds) ((holds) ? void() : ::weft::sim::check_failed(#holds, __FILE__, __LINE__))
[[noreturn]] void check_failed(const char* what, const char* file, int line);

struct Outcome {
  int status = 0;                 // exit status; 128 and the number for a signal
  std::uint64_t fingerprint = 0;  // of the whole run, when it came to its end
  std::uint64_t switches = 0;
  bool operator==(const Outcome&) const = default;
};
[[nodiscard]] Outcome in_simulation(const Options& options, const std::function<void()>& body);
[[nodiscard]] inline Outcome in_simulation(std::uint64_t seed, const std::function<void()>& body) {
  return in_simulation(Options{.seed = seed}, body);
}

}  // namespace weft::sim
