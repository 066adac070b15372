#include "rpc/base/clock.h"

#include <sys/random.h>
#include <time.h>

#include <cerrno>
#include <cstring>
#include <system_error>

namespace weft {
namespace {

class SystemClock : public Clock {
 public:
  [[nodiscard]] TimePoint now() const override { return std::chrono::steady_clock::now(); }
  [[nodiscard]] std::int64_t wall_ns() const override {
    return std::chrono::duration_cast<Nanoseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
};

class BoottimeClock final : public SystemClock {
 public:
  [[nodiscard]] TimePoint now() const override {
    timespec at{};
    ::clock_gettime(CLOCK_BOOTTIME, &at);  // cannot fail on a Linux that has it, all since 2.6.39
    return TimePoint(std::chrono::seconds(at.tv_sec) + Nanoseconds(at.tv_nsec));
  }
};

class SystemRandom final : public Random {
 public:
  void fill(std::span<std::byte> out) override {
    while (!out.empty()) {
      const ssize_t n = ::getrandom(out.data(), out.size(), 0);
      if (n < 0 && errno == EINTR) continue;
      // Cannot fail on a Linux that has the call; identities from anything else would be unsafe.
      if (n < 0) throw std::system_error(errno, std::generic_category(), "getrandom");
      out = out.subspan(static_cast<std::size_t>(n));
    }
  }
};

}  // namespace

std::uint64_t Random::u64() {
  std::uint64_t value = 0;
  fill(std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

std::uint64_t Random::below(std::uint64_t bound) {
  // Rejects the few values that would favour small results.
  const std::uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
  for (;;) {
    const std::uint64_t value = u64();
    if (value < limit) return value % bound;
  }
}

void SeededRandom::fill(std::span<std::byte> out) {
  while (!out.empty()) {
    state_ += 0x9E3779B97F4A7C15ULL;
    std::uint64_t z = state_;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ z >> 27) * 0x94D049BB133111EBULL;
    z ^= z >> 31;
    const std::size_t n = std::min(out.size(), sizeof z);
    std::memcpy(out.data(), &z, n);
    out = out.subspan(n);
  }
}

Clock& system_clock() {
  static SystemClock clock;
  return clock;
}

Clock& boottime_clock() {
  static BoottimeClock clock;
  return clock;
}

Random& system_random() {
  static SystemRandom random;
  return random;
}

}  // namespace weft
