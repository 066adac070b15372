// Time and randomness as injected interfaces, so that tests are seeded and repeat.
//
// Code that measures deadlines, leases or makes identities takes a Clock& or a Random& and never
// calls the system by itself. system_clock() and system_random() are what the programs pass.
//
// Threading: the system ones are safe from any thread. ManualClock is too; SeededRandom is for one
// thread at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

namespace weft {

using Nanoseconds = std::chrono::nanoseconds;
using TimePoint = std::chrono::steady_clock::time_point;  // monotonic

class Clock {
 public:
  Clock() = default;
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  virtual ~Clock() = default;

  [[nodiscard]] virtual TimePoint now() const = 0;         // monotonic
  [[nodiscard]] virtual std::int64_t wall_ns() const = 0;  // nanoseconds since 1970
};

class ManualClock final : public Clock {
 public:
  [[nodiscard]] TimePoint now() const override { return TimePoint(Nanoseconds(at_ns_.load())); }
  [[nodiscard]] std::int64_t wall_ns() const override { return at_ns_.load(); }
  void advance(Nanoseconds by) { at_ns_ += by.count(); }

 private:
  std::atomic<std::int64_t> at_ns_{1'000'000'000};
};

class Random {
 public:
  Random() = default;
  Random(const Random&) = delete;
  Random& operator=(const Random&) = delete;
  virtual ~Random() = default;

  virtual void fill(std::span<std::byte> out) = 0;
  [[nodiscard]] std::uint64_t u64();
  // Uniform in [0, bound). Precondition: bound > 0.
  [[nodiscard]] std::uint64_t below(std::uint64_t bound);
};

// splitmix64: the same seed, the same bytes, on every machine.
class SeededRandom final : public Random {
 public:
  explicit SeededRandom(std::uint64_t seed) : state_(seed) {}
  void fill(std::span<std::byte> out) override;

 private:
  std::uint64_t state_;
};

[[nodiscard]] Clock& system_clock();
// The system's, but its now() also counts the time the machine was suspended (CLOCK_BOOTTIME).
// Times of one clock mean nothing to the other.
[[nodiscard]] Clock& boottime_clock();
[[nodiscard]] Random& system_random();  // the kernel's, fit for identities and keys

}  // namespace weft
