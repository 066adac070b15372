// A thread of the simulation, as scheduler.cc and threads.cc see it. Internal to world/.
//
// The C library makes a real thread, whose stack and thread-local data it needs. All of them are
// run by the first kernel thread, the host, which goes from one stack to the next; the kernel
// thread of each sleeps meanwhile, and has its stack back when its start function has returned, for
// the destructors of its data. So a switch costs no system call, but for threads that end.
//
// Threading: as scheduler.h.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <list>
#include <utility>

#include "tests/simulation/world/futex.h"
#include "tests/simulation/world/scheduler.h"
#include "tests/simulation/world/stack_switch.h"

namespace weft::sim {

struct Thread {
  unsigned id = 0;
  unsigned node = kNoNode;
  unsigned life = 0;  // of the node
  pthread_t handle{};
  char name[16] = "";
  Standing standing;     // while it does not run, and the host runs it
  bool outside = false;  // its own kernel thread runs it: it ends
  bool begun = false;
  Turn turn;  // given to its own kernel thread when that is to run
  Turn made;  // given by its own kernel thread when the host may run it

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
  void* result = nullptr;
  int destructor_rounds = 0;
};

// The calling thread; null outside a simulation.
[[nodiscard]] Thread* this_thread();
// One more thread, of the caller's node, that does not run before start_thread().
[[nodiscard]] Thread* add_thread();
void start_thread(Thread* thread);
// Of the new thread's own kernel thread, first: lends its stack until the thread's start function
// has returned.
void lend_thread(Thread* thread);
// What the thread itself says last.
void end_thread();

// now(), a moment later each time.
[[nodiscard]] Ns look_at_clock();
// Another thread may run now, whatever the seed thinks of it.
void yield();
// Ends the process, as what run() says of a run that failed.
[[noreturn]] void fail_run(const char* why);

}  // namespace weft::sim
