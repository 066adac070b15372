// What looks after an open store, on threads of its own: how much space there is, and whether
// commits and syncs get on.
//
// Stalls are counted in looks, not by a clock: while the process is stopped nobody looks, and what
// waited for nothing but that is no stall.
//
// Threading: Steps are made and ended on any thread; stuck() is called on one. Regularly is made
// and destroyed on one thread, and calls `look` on its own.
//
// Ownership: a Progress outlives its Steps; what `look` uses outlives its Regularly.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>

namespace weft::mds {

// Work that may be under way, of any number of threads.
class Progress {
 public:
  class Step {
   public:
    explicit Step(Progress& of) : of_(of) { ++of_.under_way_; }
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;
    ~Step() {
      ++of_.done_;
      --of_.under_way_;
    }

   private:
    Progress& of_;
  };

  // How many calls in a row, this one included, have found work under way and none done since the
  // call before. For one thread.
  [[nodiscard]] unsigned stuck();

 private:
  std::atomic<std::uint64_t> under_way_{0};
  std::atomic<std::uint64_t> done_{0};
  std::uint64_t seen_ = 0;
  unsigned stuck_ = 0;
};

// Calls `look` every `period` until it is destroyed, which waits for a call under way.
class Regularly {
 public:
  Regularly(std::chrono::milliseconds period, std::function<void()> look);

 private:
  std::jthread thread_;
};

}  // namespace weft::mds
