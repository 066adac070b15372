// Ends the process when an I/O thread hangs.
//
// A hung data server behind a live TCP connection makes clients wait for ever; one that is gone is
// noticed at once, and the service manager starts it again. In every round each thread is asked for
// a sign; one that owes it for `limit` rounds in a row is hung. Rounds are counted rather than time
// measured, so that a process that was stopped and continued is not taken for hung.
//
// A thread that waits in the kernel for a disk is not taken for hung: it cannot be killed, and its
// process would not be gone, nor its connections, before the disk answers. What becomes of its
// clients is another's to see to (process/stall_watch.h).
//
// on_alive is called in every round in which all threads had given the sign asked for in the one
// before: for a supervisor (supervisor.h).
//
// Threading: a thread of its own; construct and destroy from one thread while the I/O threads run.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "dataserver/ring/io_ring.h"
#include "rpc/base/disk_wait.h"
#include "rpc/base/mutex.h"

namespace weft::ds {

class Watchdog {
 public:
  // `on_hung` gets the thread's index; the programs' ends the process. A limit of 0 is none.
  Watchdog(std::vector<IoRing*> rings, unsigned limit, std::chrono::milliseconds round,
           std::function<void(unsigned)> on_hung, std::function<void()> on_alive = {},
           std::function<bool(pid_t)> at_disk = waits_for_disk);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog();

 private:
  struct Sign {
    std::atomic<bool> owed{false};
    std::atomic<pid_t> thread{0};  // that gave the last
    unsigned rounds = 0;           // the watchdog's thread only
  };
  void run();

  const std::vector<IoRing*> rings_;
  const unsigned limit_;
  const std::chrono::milliseconds round_;
  const std::function<void(unsigned)> on_hung_;
  const std::function<void()> on_alive_;
  const std::function<bool(pid_t)> at_disk_;
  std::vector<std::shared_ptr<Sign>> signs_;
  Mutex mutex_;
  CondVar wake_;
  bool stop_ WEFT_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// What the programs do when a thread hangs: the store is found unclean, as after any crash.
[[noreturn]] void end_hung_process(unsigned thread);

}  // namespace weft::ds
