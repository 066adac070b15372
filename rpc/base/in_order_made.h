// Sets of objects in the order in which they were made. By address their order is another in each
// run, and what is done to all of them goes another way: a simulation's seed would not replay.
//
// Threading: any thread; a number does not change.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft {

class Numbered {
 public:
  Numbered() = default;
  Numbered(const Numbered&) = delete;
  Numbered& operator=(const Numbered&) = delete;
  [[nodiscard]] std::uint64_t number() const { return number_; }

 protected:
  ~Numbered() = default;

 private:
  static inline std::atomic<std::uint64_t> next_{0};
  std::uint64_t number_ = next_.fetch_add(1, std::memory_order_relaxed);
};

// Compares pointers to Numbered, as a set's order.
struct InOrderMade {
  template <class Pointer>
  bool operator()(const Pointer& a, const Pointer& b) const {
    return a->number() < b->number();
  }
};

}  // namespace weft
