// Whether threads of this process wait in the kernel for a disk, where no signal wakes them. A
// process with such a thread cannot be ended before the disk answers.
//
// Threading: any thread.
#pragma once

#include <sys/types.h>

namespace weft {

// Of this process.
[[nodiscard]] bool waits_for_disk(pid_t thread);
[[nodiscard]] bool any_thread_waits_for_disk();

}  // namespace weft
