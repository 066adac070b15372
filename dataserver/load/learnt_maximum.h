// The most a disk or a network gives, learnt: the greatest rate ever seen, forgotten slowly so that
// a disk that became slower, or was measured at a moment of luck, does not count as fast for ever.
//
// Threading: one thread. Rates are bytes per second.
#pragma once

#include <chrono>
#include <cstdint>

namespace weft::ds {

class LearntMaximum {
 public:
  // Nothing less than `floor` is ever believed: an idle machine has shown nothing.
  explicit LearntMaximum(std::uint64_t floor) : floor_(floor), value_(static_cast<double>(floor)) {}

  // `rate` was seen over the last `span`.
  void observe(std::uint64_t rate, std::chrono::nanoseconds span);
  [[nodiscard]] std::uint64_t value() const { return static_cast<std::uint64_t>(value_); }

 private:
  std::uint64_t floor_;
  double value_;
};

}  // namespace weft::ds
