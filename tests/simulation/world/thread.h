// A thread of the simulation, as scheduler.cc and threads.cc see it. Internal to world/.
//
// Threading: as scheduler.h.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <list>
#include <utility>

#include "tests/simulation/world/futex.h"
#include "tests/simulation/world/scheduler.h"

namespace weft::sim {

struct Thread {
  unsigned id = 0;
  unsigned node = kNoNode;
  pthread_t handle{};
  char name[16] = "";
  Turn turn;  // given when it is to run

  WaitList* list = nullptr;  // where it waits
  std::list<Thread*>::iterator place;
  bool has_deadline = false;
  std::pair<Ns, std::uint64_t> deadline;
  bool timed_out = false;

  bool done = false;
  bool detached = false;
  WaitList joiners;
  void* (*start)(void*) = nullptr;
  void* argument = nullptr;
  int destructor_rounds = 0;
};

// The calling thread; null outside a simulation.
[[nodiscard]] Thread* this_thread();
// One more thread, of the caller's node, that does not run before start_thread().
[[nodiscard]] Thread* add_thread();
void start_thread(Thread* thread);
// What the new thread itself says first, and last.
void begin_thread(Thread* thread);
void end_thread();

// now(), a moment later each time.
[[nodiscard]] Ns look_at_clock();
// Another thread may run now, whatever the seed thinks of it.
void yield();
// Ends the process, as what run() says of a run that failed.
[[noreturn]] void fail_run(const char* why);

}  // namespace weft::sim
