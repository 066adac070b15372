// A small process that runs the data server as its child, and starts it again.
//
// A data server that hangs behind a live TCP connection makes a Linux client wait for ever; one
// that is gone is noticed at once: its connections are reset, and clients turn to another copy or
// connect again. The watchdog within the server (watchdog.h) sees a thread that hangs, but not a
// process that is stopped as a whole, or whose watchdog hangs too. So the child gives a sign of
// life, over a pipe, in every round in which all of its I/O threads answered, and is killed and
// started again when there was none for `silence` rounds. Rounds are counted rather than time
// measured: if both processes were stopped, as with their machine, neither is to blame.
//
//   until the first sign   no limit: opening a store takes what it takes, and nobody is connected
//   it ends, and none has  its exit status is passed on: what is wrong is wrong with the
//   ever served            configuration, the store or the network
//   it ends with 0         so does the supervisor: somebody stopped it
//   it ends otherwise      it is started again, at once if it lived for long, else after a pause
//                          that doubles with each short life (Pauses)
//   it says kGoingDown     it has stop_limit to end
//   SIGTERM, SIGINT        passed on; killed if it has not ended within stop_limit
//   SIGHUP                 passed on
//   the supervisor dies    the kernel kills the child (PR_SET_PDEATHSIG)
//
// A service manager that asks for it (NOTIFY_SOCKET, sd_notify(3)) is told READY, once a child
// serves, WATCHDOG, STOPPING, and the STATUS that the child gives, by the supervisor, which stays
// its main process.
//
// Threading: run() takes over the calling process, which has no other threads: it forks.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>

#include "rpc/base/clock.h"

namespace weft::ds {

struct SupervisorOptions {
  unsigned silence = 5;  // rounds without a sign of life
  std::chrono::milliseconds round{1000};
  std::chrono::milliseconds stop_limit{85'000};
  std::chrono::milliseconds first_pause{1000};
  std::chrono::milliseconds longest_pause{30'000};
  std::chrono::milliseconds long_life{60'000};
};

// How long to wait before the next start.
class Pauses {
 public:
  explicit Pauses(const SupervisorOptions& options) : options_(options) {}
  [[nodiscard]] std::chrono::milliseconds after_life_of(std::chrono::milliseconds lived) {
    if (lived >= options_.long_life) next_ = std::chrono::milliseconds(0);
    const auto pause = next_;
    next_ = std::min(std::max(next_ * 2, options_.first_pause), options_.longest_pause);
    return pause;
  }

 private:
  const SupervisorOptions options_;
  std::chrono::milliseconds next_{0};
};

class Supervisor {
 public:
  // What the child writes to `life`.
  static constexpr char kAlive = '+';
  static constexpr char kGoingDown = '-';
  static constexpr char kServing = '!';
  static constexpr char kStatus = ':';  // a line of text follows, for people
  // Runs in the child; what it returns is the exit status.
  using Serve = std::function<int(int life)>;

  explicit Supervisor(SupervisorOptions options, const Clock& clock = system_clock())
      : options_(options), clock_(clock), pauses_(options) {}

  // Returns the exit status of the whole.
  [[nodiscard]] int run(const Serve& serve);
  // In the child: there was a SIGHUP, so the configuration is to be read again.
  [[nodiscard]] bool reloaded() const { return reloaded_; }

 private:
  struct Child;
  enum class Wake { kTime, kSign, kStop, kChild, kReload };

  [[nodiscard]] bool start(const Serve& serve, Child& child) const;
  [[nodiscard]] Wake wait(Child* child, std::chrono::milliseconds limit);
  void read_signs(Child& child);
  void read_sign(Child& child, char sign);
  // The child's wait status. Sets stopping_ when told to stop.
  [[nodiscard]] int watch(Child& child);
  [[nodiscard]] int stop(const Child& child, int signal);
  [[nodiscard]] std::chrono::milliseconds since(TimePoint then) const;
  // False when told to stop meanwhile.
  [[nodiscard]] bool pause(std::chrono::milliseconds length);

  const SupervisorOptions options_;
  const Clock& clock_;
  Pauses pauses_;
  int signals_ = -1;  // a signalfd
  bool stopping_ = false;
  bool served_ = false;  // some child has
  bool reloaded_ = false;
  int stop_signal_ = 0;
};

}  // namespace weft::ds
