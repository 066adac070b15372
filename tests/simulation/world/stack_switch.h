// Going on with another thread without the kernel: its stack and its thread-local data are taken
// over by the kernel thread that runs. Internal to scheduler.cc.
//
// On x86-64 a thread is, for the C library and for what it calls, where its stack pointer and its
// FS register point. So both are changed together, and the code that goes on finds its own errno,
// its own thread_local objects and its own pthread_self().
//
// Threading: by the kernel thread that runs the simulation. A stack is switched to by nobody who is
// on it, and by one at a time.
#pragma once

#include <cstdint>

namespace weft::sim {

// Where code goes on. Valid until switched to.
struct Standing {
  void* stack = nullptr;
  std::uintptr_t thread_data = 0;  // what FS points to: on this system, pthread_self()
};

// The calling code goes on when somebody switches to `from`.
void switch_stack(Standing& from, const Standing& to);

// `top` of a stack that nobody is on: begin() runs there, and never returns. FS is the caller's.
[[nodiscard]] Standing fresh_standing(void* top, void (*begin)());

}  // namespace weft::sim
