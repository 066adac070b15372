// Threads and what they wait for: the pthread functions, on the scheduler.
//
// A mutex, a semaphore and a reader-writer lock keep their state where it is, in their own memory,
// by the real functions that do not wait; who would wait does so in a list that belongs to the
// address. Condition variables and once-controls are such lists alone.
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/sysinfo.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <unordered_map>

#include "tests/simulation/world/by_address.h"
#include "tests/simulation/world/real.h"
#include "tests/simulation/world/scheduler.h"
#include "tests/simulation/world/thread.h"
#include "tests/simulation/world/times.h"

namespace weft::sim {

namespace {

std::unordered_map<pthread_t, Thread*>& by_handle() {
  static auto* const threads = new std::unordered_map<pthread_t, Thread*>;
  return *threads;
}

// The last thing of a thread that anybody can notice are destructors of its own data. This one
// comes round as often as the C library allows, so that it is behind the others.
void on_thread_data(void* data);
pthread_key_t last_key() {
  static const pthread_key_t key = [] {
    pthread_key_t made{};
    if (pthread_key_create(&made, on_thread_data) != 0) std::abort();
    return made;
  }();
  return key;
}
void on_thread_data(void* data) {
  auto* const thread = static_cast<Thread*>(data);
  if (++thread->destructor_rounds < 4) {
    pthread_setspecific(last_key(), thread);
    return;
  }
  end_thread();
}

void* trampoline(void* data) {
  auto* const thread = static_cast<Thread*>(data);
  lend_thread(thread);
  pthread_setspecific(last_key(), thread);
  return thread->result;
}

// The real thread is waited for, so that where the next one's stack lies does not depend on how
// quickly the system takes this one down.
int join_real(Thread* thread, void** result) {
  by_handle().erase(thread->handle);
  const Real real;
  return WEFT_REAL(pthread_join)(thread->handle, result);
}

// True: got it. False: time ran out first.
template <class Try>
bool take(const void* what, Ns deadline, int& result, Try try_it) {
  preempt();
  while ((result = try_it()) == EBUSY) {
    if (!wait_at(what, deadline)) return false;
  }
  return true;
}

int lock_mutex(pthread_mutex_t* mutex, Ns deadline) {
  int result = 0;
  const bool got =
      take(mutex, deadline, result, [mutex] { return WEFT_REAL(pthread_mutex_trylock)(mutex); });
  return got ? result : ETIMEDOUT;
}
int unlock_mutex(pthread_mutex_t* mutex) {
  const int result = WEFT_REAL(pthread_mutex_unlock)(mutex);
  wake_at(mutex, false);
  return result;
}

int wait_cond(pthread_cond_t* cond, pthread_mutex_t* mutex, Ns deadline) {
  unlock_mutex(mutex);
  // Condition variables may wake up for nothing; some do.
  const bool for_nothing = chance(500);
  const bool woken = for_nothing ? (yield(), true) : wait_at(cond, deadline);
  lock_mutex(mutex, kNever);
  return woken ? 0 : ETIMEDOUT;
}

int read_lock(pthread_rwlock_t* lock, Ns deadline) {
  int result = 0;
  const bool got =
      take(lock, deadline, result, [lock] { return WEFT_REAL(pthread_rwlock_tryrdlock)(lock); });
  return got ? result : ETIMEDOUT;
}
int write_lock(pthread_rwlock_t* lock, Ns deadline) {
  int result = 0;
  const bool got =
      take(lock, deadline, result, [lock] { return WEFT_REAL(pthread_rwlock_trywrlock)(lock); });
  return got ? result : ETIMEDOUT;
}

int wait_sem(sem_t* sem, Ns deadline) {
  preempt();
  while (WEFT_REAL(sem_trywait)(sem) != 0) {
    if (errno != EAGAIN) return -1;
    if (!wait_at(sem, deadline)) {
      errno = ETIMEDOUT;
      return -1;
    }
  }
  return 0;
}

}  // namespace

}  // namespace weft::sim

using namespace weft;  // NOLINT: what follows has names of the C library

extern "C" {

int pthread_create(pthread_t* handle, const pthread_attr_t* attributes, void* (*start)(void*),
                   void* argument) {
  if (!sim::active()) return WEFT_REAL(pthread_create)(handle, attributes, start, argument);
  sim::Thread* thread = sim::add_thread();
  thread->start = start;
  thread->argument = argument;
  int state = PTHREAD_CREATE_JOINABLE;
  if (attributes != nullptr) pthread_attr_getdetachstate(attributes, &state);
  thread->detached = state == PTHREAD_CREATE_DETACHED;
  const int result = WEFT_REAL(pthread_create)(&thread->handle, nullptr, sim::trampoline, thread);
  if (result != 0) sim::fail_run("no more threads");
  thread->made.await();
  *handle = thread->handle;
  sim::by_handle()[thread->handle] = thread;
  sim::start_thread(thread);
  sim::preempt();
  return 0;
}

int pthread_join(pthread_t handle, void** value) {
  if (!sim::active()) return WEFT_REAL(pthread_join)(handle, value);
  const auto found = sim::by_handle().find(handle);
  if (found == sim::by_handle().end()) return ESRCH;
  sim::Thread* thread = found->second;
  while (!thread->done) sim::wait(thread->joiners);
  return sim::join_real(thread, value);
}

// A detached thread's real one stays until the process ends: nobody asks for its number again.
int pthread_detach(pthread_t handle) {
  if (!sim::active()) return WEFT_REAL(pthread_detach)(handle);
  const auto found = sim::by_handle().find(handle);
  if (found == sim::by_handle().end()) return ESRCH;
  found->second->detached = true;
  return 0;
}

int pthread_setname_np(pthread_t handle, const char* name) {
  if (sim::active()) {
    const auto found = sim::by_handle().find(handle);
    if (found != sim::by_handle().end()) {
      std::snprintf(found->second->name, sizeof found->second->name, "%s", name);
    }
  }
  return 0;
}

int pthread_mutex_lock(pthread_mutex_t* mutex) {
  if (!sim::active()) return WEFT_REAL(pthread_mutex_lock)(mutex);
  return sim::lock_mutex(mutex, sim::kNever);
}
int pthread_mutex_timedlock(pthread_mutex_t* mutex, const timespec* deadline) {
  if (!sim::active()) return WEFT_REAL(pthread_mutex_timedlock)(mutex, deadline);
  return sim::lock_mutex(mutex, sim::from_timespec(CLOCK_REALTIME, *deadline));
}
int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock, const timespec* deadline) {
  if (!sim::active()) return WEFT_REAL(pthread_mutex_clocklock)(mutex, clock, deadline);
  return sim::lock_mutex(mutex, sim::from_timespec(clock, *deadline));
}
int pthread_mutex_unlock(pthread_mutex_t* mutex) {
  if (!sim::active()) return WEFT_REAL(pthread_mutex_unlock)(mutex);
  const int result = sim::unlock_mutex(mutex);
  sim::preempt();
  return result;
}

int pthread_cond_wait(pthread_cond_t* cond, pthread_mutex_t* mutex) {
  if (!sim::active()) return WEFT_REAL_VERSION(pthread_cond_wait, "GLIBC_2.3.2")(cond, mutex);
  return sim::wait_cond(cond, mutex, sim::kNever);
}
int pthread_cond_timedwait(pthread_cond_t* cond, pthread_mutex_t* mutex, const timespec* deadline) {
  if (!sim::active()) {
    return WEFT_REAL_VERSION(pthread_cond_timedwait, "GLIBC_2.3.2")(cond, mutex, deadline);
  }
  return sim::wait_cond(cond, mutex, sim::from_timespec(CLOCK_REALTIME, *deadline));
}
int pthread_cond_clockwait(pthread_cond_t* cond, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* deadline) {
  if (!sim::active()) return WEFT_REAL(pthread_cond_clockwait)(cond, mutex, clock, deadline);
  return sim::wait_cond(cond, mutex, sim::from_timespec(clock, *deadline));
}
int pthread_cond_signal(pthread_cond_t* cond) {
  if (!sim::active()) return WEFT_REAL_VERSION(pthread_cond_signal, "GLIBC_2.3.2")(cond);
  sim::wake_at(cond, false);
  return 0;
}
int pthread_cond_broadcast(pthread_cond_t* cond) {
  if (!sim::active()) return WEFT_REAL_VERSION(pthread_cond_broadcast, "GLIBC_2.3.2")(cond);
  sim::wake_at(cond, true);
  return 0;
}

int pthread_rwlock_rdlock(pthread_rwlock_t* lock) {
  if (!sim::active()) return WEFT_REAL(pthread_rwlock_rdlock)(lock);
  return sim::read_lock(lock, sim::kNever);
}
int pthread_rwlock_wrlock(pthread_rwlock_t* lock) {
  if (!sim::active()) return WEFT_REAL(pthread_rwlock_wrlock)(lock);
  return sim::write_lock(lock, sim::kNever);
}
int pthread_rwlock_unlock(pthread_rwlock_t* lock) {
  if (!sim::active()) return WEFT_REAL(pthread_rwlock_unlock)(lock);
  const int result = WEFT_REAL(pthread_rwlock_unlock)(lock);
  sim::wake_at(lock, true);
  sim::preempt();
  return result;
}

int pthread_once(pthread_once_t* once, void (*routine)()) {
  if (!sim::active()) return WEFT_REAL(pthread_once)(once, routine);
  constexpr int kDone = 2;   // the C library's own
  constexpr int kBegun = 4;  // nothing that it uses
  while ((*once & kDone) == 0) {
    if ((*once & kBegun) != 0) {
      sim::wait_at(once, sim::kNever);
      continue;
    }
    *once |= kBegun;
    routine();
    *once = kDone;
    sim::wake_at(once, true);
  }
  return 0;
}

int sem_wait(sem_t* sem) {
  if (!sim::active()) return WEFT_REAL(sem_wait)(sem);
  return sim::wait_sem(sem, sim::kNever);
}
int sem_timedwait(sem_t* sem, const timespec* deadline) {
  if (!sim::active()) return WEFT_REAL(sem_timedwait)(sem, deadline);
  return sim::wait_sem(sem, sim::from_timespec(CLOCK_REALTIME, *deadline));
}
int sem_clockwait(sem_t* sem, clockid_t clock, const timespec* deadline) {
  if (!sim::active()) return WEFT_REAL(sem_clockwait)(sem, clock, deadline);
  return sim::wait_sem(sem, sim::from_timespec(clock, *deadline));
}
int sem_post(sem_t* sem) {
  if (!sim::active()) return WEFT_REAL(sem_post)(sem);
  const int result = WEFT_REAL(sem_post)(sem);
  sim::wake_at(sem, false);
  return result;
}

int sched_yield() {
  if (!sim::active()) return WEFT_REAL(sched_yield)();
  sim::yield();
  return 0;
}

// Two processors, and threads stay where the simulation has put them.
int sched_getaffinity(pid_t process, size_t bytes, cpu_set_t* set) {
  if (!sim::active()) return WEFT_REAL(sched_getaffinity)(process, bytes, set);
  CPU_ZERO_S(bytes, set);
  CPU_SET_S(0, bytes, set);
  CPU_SET_S(1, bytes, set);
  return 0;
}
int sched_setaffinity(pid_t process, size_t bytes, const cpu_set_t* set) {
  return sim::active() ? 0 : WEFT_REAL(sched_setaffinity)(process, bytes, set);
}
int pthread_setaffinity_np(pthread_t thread, size_t bytes, const cpu_set_t* set) {
  return sim::active() ? 0 : WEFT_REAL(pthread_setaffinity_np)(thread, bytes, set);
}
int sched_getcpu() { return sim::active() ? 0 : WEFT_REAL(sched_getcpu)(); }
int get_nprocs() { return sim::active() ? 2 : WEFT_REAL(get_nprocs)(); }

}  // extern "C"
