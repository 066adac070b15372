// What the metadata server has asked to change here and is not over: cuts, allocations and holes.
//
// A fence of what the metadata server itself has sent waits for those that were asked for before it
// (control_link.h), and so does every run of the metadata server, before anything is written here
// under it. A disk that hangs holds all of that up: what has been under way for long is told, each
// once, with its object and the run (boot epoch) that asked for it.
//
// Threading: enter() on an I/O thread. A Token's life ends there too. The rest from any thread.
//
// Ownership: the rings and the clock outlive it. Tokens may outlive it.
//
// Invariant: a drain is not over before the tokens are that were given before it
// (writes_in_flight.h).
#pragma once

#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "dataserver/ring/writes_in_flight.h"
#include "layout/object_id.h"
#include "rpc/base/clock.h"
#include "rpc/base/mutex.h"

namespace weft::ds {

class ChangesUnderWay {
 public:
  using Token = std::shared_ptr<const void>;
  static constexpr std::chrono::seconds kLong{5};

  struct Change {
    layout::ObjectId object;
    std::uint64_t epoch = 0;  // of the run that asked for it
    TimePoint since{};
    bool told = false;
  };

  explicit ChangesUnderWay(std::vector<IoRing*> rings, const Clock& clock = system_clock())
      : clock_(clock), in_flight_(std::move(rings)) {}

  [[nodiscard]] Token enter(const layout::ObjectId& object, std::uint64_t epoch);
  void drain(std::move_only_function<void()> done) { in_flight_.drain(std::move(done)); }
  // Those that have been under way for kLong, and were not taken before; the oldest first.
  [[nodiscard]] std::vector<Change> take_late();

 private:
  struct All {
    Mutex mutex;
    std::list<Change> changes WEFT_GUARDED_BY(mutex);  // in the order in which they came
  };

  const Clock& clock_;
  WritesInFlight in_flight_;
  const std::shared_ptr<All> all_ = std::make_shared<All>();
};

}  // namespace weft::ds
