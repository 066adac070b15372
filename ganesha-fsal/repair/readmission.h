// What becomes of a data server whose store is not in the state it was accepted in last: it was
// rolled back, or is an old copy (docs/protocol.md, "A store's history").
//
// The registry refuses its registration, so it serves nobody, until this has reviewed it:
//
//   1. It surely has no lease: no earlier process of it serves clients.
//   2. Every object that it may hold is gone through. Where the stripe has another current copy,
//   its
//      own is marked stale from end to end, so it is never read or led with before it is repaired.
//   3. The fences that the store may have forgotten are recorded for it again: of each of these
//      objects at the file's present epoch, and of every client that was ever fenced.
//   4. It is admitted, in the state it came with, and told all this when it registers.
//
// Where it has the only current copy of anything it is not admitted: its data is old, and nothing
// else is there to mend it from. An administrator may say that it is to be used as it is
// (Registry::take_as_is()); then it is admitted, with such copies as they are. Other copies of
// these files get all of them when they are repaired, as what they missed they missed of newer
// bytes.
//
// Each step may be done again: the review begins anew when a process dies in its middle.
//
// Threading: any thread. A thread of its own does the reviews, one after the other, and blocks.
//
// Ownership: everything in Parts outlives it. stop(), or destruction, joins.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "ganesha-fsal/cluster/registry.h"
#include "ganesha-fsal/meta/ops/namespace.h"
#include "rpc/base/clock.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

class Readmission {
 public:
  using Clock = std::chrono::steady_clock;

  struct Limits {
    std::size_t page = 256;  // of a data server's objects
    Clock::duration round = std::chrono::milliseconds(500);
    Clock::duration retry = std::chrono::seconds(2);        // of a review that could not get on
    Clock::duration look_again = std::chrono::seconds(60);  // where it has the only copy
  };
  struct Parts {
    Namespace& names;
    std::function<std::vector<Registry::Foreign>()> foreign;
    std::function<bool(std::uint32_t ds_id)> lapse;             // Registry::lapse()
    std::function<Result<>(FileId, std::uint32_t ds_id)> mark;  // Mirrors::rolled_back()
    // Records them; they are sent when it registers.
    std::function<Result<>(std::uint32_t ds_id, std::span<const control::Fence>)> fence;
    std::function<void(std::uint32_t ds_id, std::string)> explain;  // Registry::explain()
    std::function<Result<>(std::uint32_t ds_id, const control::StoreState&)> admit;
    Limits limits{};
    const weft::Clock& clock;  // outlives it
  };

  explicit Readmission(Parts parts) : parts_(std::move(parts)) {}
  Readmission(const Readmission&) = delete;
  Readmission& operator=(const Readmission&) = delete;
  ~Readmission() { stop(); }
  void start();
  void stop();
  // An administrator has decided something.
  void look_now();

  // One round; what the thread does. For tests.
  void turn();

 private:
  // What a review found.
  struct Found {
    std::uint64_t only = 0;  // objects of which no other copy is current
    std::uint64_t away = 0;  // of which one is, and its data server is not here
    std::uint64_t failed = 0;
    std::string error;         // of the last that failed
    bool interrupted = false;  // by stop(), or it does not ask any more
  };
  struct Pause {
    control::StoreState state;
    bool as_is = false;
    Clock::time_point until;
  };

  void run();
  [[nodiscard]] bool paused(const Registry::Foreign& store) const;
  void pause(const Registry::Foreign& store, Clock::duration length);
  void review(const Registry::Foreign& store);
  [[nodiscard]] Result<Found> go_through(const Registry::Foreign& store) const;
  [[nodiscard]] Result<> mark_page(const Registry::Foreign& store,
                                   std::span<const layout::ObjectId> objects, Found& found) const;
  [[nodiscard]] Result<> fence_clients(std::uint32_t ds_id) const;
  [[nodiscard]] bool goes_on(const Registry::Foreign& store) const;

  const Parts parts_;
  std::map<std::uint32_t, Pause> pauses_;  // the thread's
  mutable Mutex mutex_;
  CondVar wake_;
  bool stopping_ WEFT_GUARDED_BY(mutex_) = false;
  bool look_now_ WEFT_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace weft::mds
