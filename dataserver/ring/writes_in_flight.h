// Knows when the writes that were admitted before a moment are over.
//
// Fencing must not be answered while a write that was admitted with the old right may still change
// the object. Each I/O thread counts its writes by period; a drain begins a new period on every
// thread and is done when all writes of older ones are over.
//
// Threading: enter(), and the end of a Token's life, on an I/O thread, the same one. drain() from
// any thread; its completion runs on some I/O thread.
//
// Invariants:
//  1. A Period lives as long as a write of it or of an older one does: each period holds a
//     reference to the next.
//  2. drain() calls back exactly once, provided the I/O threads run; of one thread's drains, an
//     earlier one first.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "dataserver/ring/io_ring.h"

namespace weft::ds {

class WritesInFlight {
  struct Period;

 public:
  using Token = std::shared_ptr<const Period>;

  // One ring for each I/O thread, in the order of their index; they outlive this.
  explicit WritesInFlight(std::vector<IoRing*> rings);

  [[nodiscard]] Token enter() const;
  void drain(std::move_only_function<void()> done);

 private:
  struct Period {
    Period() = default;
    Period(const Period&) = delete;
    Period& operator=(const Period&) = delete;
    // Of those after it, the ones that nobody else holds end here, one after the other: in each
    // other they could be more than the stack holds.
    ~Period() {
      if (over) over();
      auto at = std::move(next);
      while (at != nullptr && at.use_count() == 1) {
        auto after = std::move(at->next);
        at = std::move(after);
      }
    }
    std::shared_ptr<Period> next;
    std::move_only_function<void()> over;
  };
  struct alignas(64) PerThread {
    std::shared_ptr<Period> current = std::make_shared<Period>();
  };

  std::vector<IoRing*> rings_;
  std::vector<PerThread> threads_;
};

}  // namespace weft::ds
