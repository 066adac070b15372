// Clocks and sleeps, in simulated time.
#include <errno.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "tests/simulation/world/real.h"
#include "tests/simulation/world/scheduler.h"
#include "tests/simulation/world/thread.h"
#include "tests/simulation/world/times.h"

using namespace weft;  // NOLINT: what follows has names of the C library

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) {
  if (!sim::active()) return WEFT_REAL(clock_gettime)(clock, time);
  *time = sim::to_timespec(clock, sim::look_at_clock());
  return 0;
}
int gettimeofday(timeval* __restrict time, void* __restrict zone) {
  if (!sim::active()) return WEFT_REAL(gettimeofday)(time, zone);
  const timespec precise = sim::to_timespec(CLOCK_REALTIME, sim::look_at_clock());
  *time = {precise.tv_sec, precise.tv_nsec / 1000};
  return 0;
}
time_t time(time_t* out) {
  if (!sim::active()) return WEFT_REAL(time)(out);
  const time_t seconds = sim::to_timespec(CLOCK_REALTIME, sim::look_at_clock()).tv_sec;
  if (out != nullptr) *out = seconds;
  return seconds;
}

int nanosleep(const timespec* span, timespec* left) {
  if (!sim::active()) return WEFT_REAL(nanosleep)(span, left);
  sim::sleep_until(sim::now() + sim::to_ns(*span));
  return 0;
}
int clock_nanosleep(clockid_t clock, int flags, const timespec* span, timespec* left) {
  if (!sim::active()) return WEFT_REAL(clock_nanosleep)(clock, flags, span, left);
  const bool absolute = (flags & TIMER_ABSTIME) != 0;
  sim::sleep_until(absolute ? sim::from_timespec(clock, *span) : sim::now() + sim::to_ns(*span));
  return 0;
}
int usleep(useconds_t span) {
  if (!sim::active()) return WEFT_REAL(usleep)(span);
  sim::sleep_until(sim::now() + static_cast<sim::Ns>(span) * sim::kMicrosecond);
  return 0;
}
unsigned sleep(unsigned seconds) {
  if (!sim::active()) return WEFT_REAL(sleep)(seconds);
  sim::sleep_until(sim::now() + seconds * sim::kSecond);
  return 0;
}

}  // extern "C"
