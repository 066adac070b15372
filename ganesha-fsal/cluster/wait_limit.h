// How many threads of a pool may wait for data servers at one time. The others stay free for what
// needs no data server, however many of these hang.
//
// A thread of the pool says so by a Scope, around all that it does for one request. What is about
// to wait asks may_wait() first, and answers kBusy if it may not. The scope that the thread is in
// is found without being passed on, so what waits need not know whose thread it is on; threads
// outside of any Scope, our own, may always wait.
//
// Threading: any thread. Ownership: every Scope is gone before its limit.
#pragma once

#include <atomic>
#include <cstddef>

namespace weft::mds {

class WaitLimit {
 public:
  explicit WaitLimit(std::size_t most) : most_(most) {}
  WaitLimit(const WaitLimit&) = delete;
  WaitLimit& operator=(const WaitLimit&) = delete;

  // Within another Scope it has no effect: the outer one counts.
  class Scope {
   public:
    explicit Scope(WaitLimit& limit);
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope();

   private:
    friend class WaitLimit;
    WaitLimit* const limit_;  // null: within another
    bool counted_ = false;
  };

  // Whether this thread may wait. From then on, until its Scope ends, it counts.
  [[nodiscard]] static bool may_wait();

 private:
  const std::size_t most_;
  std::atomic<std::size_t> waiting_{0};
};

}  // namespace weft::mds
