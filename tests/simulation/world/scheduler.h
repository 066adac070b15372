// The simulation's one idea: every thread of the programs under test is a real thread, but only one
// of them runs at a time, and a seed decides which one goes on. Time is a number that moves when
// nobody can run. So a run is a function of its seed.
//
// The programs under test are not changed for it. The functions of the C library with which a
// thread waits, reads a clock, or reaches network and disks are replaced in the simulation's
// executable (threads.cc, time.cc, descriptors.cc, network.cc, disk.cc, ring.cc); libstdc++, Asio,
// RocksDB and Weft call ours. A thread that is not part of a simulation gets the real ones.
//
// Threading: what is below is for the thread that runs (active()), and for events. Nothing else
// runs meanwhile, so what the simulation itself keeps needs no lock; it must only not be left half
// changed over a call that may switch: wait(), wait_until(), sleep_until(), preempt().
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <string_view>

namespace weft::sim {

struct Thread;

// Simulated time in nanoseconds since the run began.
using Ns = std::int64_t;
constexpr Ns kMicrosecond = 1'000;
constexpr Ns kMillisecond = 1'000'000;
constexpr Ns kSecond = 1'000'000'000;
constexpr Ns kNever = INT64_MAX;

// Where threads wait for something. Must be empty when it goes.
class WaitList {
 public:
  WaitList() = default;
  WaitList(const WaitList&) = delete;
  WaitList& operator=(const WaitList&) = delete;
  ~WaitList();
  [[nodiscard]] bool empty() const { return waiting_.empty(); }

 private:
  friend class Scheduler;
  std::list<Thread*> waiting_;
};

// Whether the calling thread is one of a simulation, so that the simulated system is the one to
// use. False inside Real as well.
[[nodiscard]] bool active();

// While one is there, the calling thread has the real system: for what the simulation itself does.
class Real {
 public:
  Real();
  Real(const Real&) = delete;
  Real& operator=(const Real&) = delete;
  ~Real();
};

[[nodiscard]] Ns now();
// Seeded; uniform in [0, bound), bound > 0.
[[nodiscard]] std::uint64_t choose(std::uint64_t bound);
// True `in_million` times of a million.
[[nodiscard]] bool chance(std::uint64_t in_million);

// Machines are numbered from 0 by who builds the cluster; a thread belongs to the machine of the
// thread that made it.
constexpr unsigned kNoNode = ~0U;
[[nodiscard]] unsigned node();
// For the calling thread, and those that it makes from then on. Waits for one that is paused.
void enter_node(unsigned node);
// What of a machine's programs has died may go on, unseen: sockets that it makes are of its life,
// and fail. A thread is of the life in which it entered the node, or of that of who made it.
void begin_life(unsigned node);
[[nodiscard]] unsigned life_of(unsigned node);
[[nodiscard]] unsigned life();
// The node's threads do not run until it is resumed; network and disks go on.
void pause(unsigned node);
void resume(unsigned node);

// The calling thread waits until it is woken, or (false) until the time has come. Not in an event.
void wait(WaitList& list);
[[nodiscard]] bool wait_until(WaitList& list, Ns deadline);
void sleep_until(Ns time);
// Another thread may run now, if the seed says so. A no-op in an event.
void preempt();

void wake_one(WaitList& list);
void wake_all(WaitList& list);

// Runs `work` when the time has come, on whatever thread; it must not wait. Those of one moment run
// in the order in which they were asked for.
void at(Ns time, std::move_only_function<void()> work);
inline void after(Ns delay, std::move_only_function<void()> work) {
  at(now() + delay, std::move(work));
}

// One line for who looks at a failing seed: time, node, thread, text. Kept only if tracing is on.
void trace(std::string_view text);
[[nodiscard]] bool tracing();

struct Options {
  std::uint64_t seed = 1;
  Ns limit = 3600 * kSecond;       // of simulated time; beyond it the run has failed
  std::uint64_t max_switches = 0;  // 0: any; beyond it the run has failed
  bool trace = false;
};
// Makes the calling thread the first one of a simulation (once a process) and runs `body`. What is
// wrong with the run as a whole (a deadlock, a limit) ends the process: a line on stderr with what
// every thread waits for, and exit status 3.
void run(const Options& options, const std::function<void()>& body);
// How often another thread went on, so far: what a seed cost, and a fingerprint of its course.
[[nodiscard]] std::uint64_t switches();
// Changes with each decision of the run: equal for two runs that went the same way.
[[nodiscard]] std::uint64_t fingerprint();
// Mixes something that has happened into the fingerprint.
void note(std::uint64_t what);

// The real processor's time from now on, by the machine whose thread it ran; kNoNode: the
// simulation's own between two threads. It changes nothing of the run.
void measure_costs();
[[nodiscard]] std::map<unsigned, Ns> costs();

}  // namespace weft::sim
