// Whether the disk under the store's folder answers at all.
//
// A disk that hangs reports no error; what was asked of it just does not come back. It is taken to
// hang when one operation, of io_uring or of a worker, or an I/O thread that is in the kernel for
// one, has waited for `patience` while the device carried out nothing. A disk that is merely slow
// moves, however long a single sync takes. Where the kernel does not count what a device does
// (btrfs, network file systems) only the operation says something: there it is six times as long.
//
// Time is counted in looks, a second apart, so that a process that was stopped and continued does
// not take its disk for one that hangs.
//
// Threading: look() on one thread; it asks the I/O threads, and does not wait for them.
//
// Ownership: the rings' threads end before this does.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "dataserver/ring/io_ring.h"
#include "rpc/base/clock.h"
#include "rpc/base/disk_wait.h"

namespace weft::ds {

class StallWatch {
 public:
  struct Parts {
    std::vector<IoRing*> rings;
    const Clock& clock;
    std::function<Result<std::uint64_t>()> moved;  // grows with what the device carries out
    std::chrono::seconds patience;
    std::function<bool(pid_t)> at_disk = waits_for_disk;  // of a thread
  };
  explicit StallWatch(Parts parts);

  // For how long the disk has not answered; nullopt: it does, as far as is known. To be called more
  // often than once a second.
  [[nodiscard]] std::optional<std::chrono::seconds> look();

 private:
  struct Sign {
    std::atomic<bool> owed{false};
    std::atomic<TimePoint::rep> oldest{0};  // as of the last sign: 0: nothing waits
    std::atomic<pid_t> thread{0};
    TimePoint asked;
  };
  [[nodiscard]] std::optional<TimePoint> oldest(TimePoint now);

  const Parts parts_;
  std::vector<std::shared_ptr<Sign>> signs_;
  TimePoint looked_{};
  TimePoint moving_until_{};  // what has waited from before this has seen no move since
  std::optional<std::uint64_t> moved_;
  std::chrono::seconds stalled_{0};
};

}  // namespace weft::ds
