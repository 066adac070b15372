// Simulated disks: a folder of the real file system for each node, whose files may lose what was
// not synced when power fails, and which may be slow, full or failing.
//
// A path below the node's folder (Disk::path()) is on its disk; the real file is always as the
// programs see it. Beside it the simulation keeps what would come back after a power failure: for
// each change that no sync has made durable, how to undo it. lose_power() copies the folder as it
// might be found then: of what was not synced the seed keeps some sectors and leaves others.
//
// Threading: as scheduler.h.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstdint>
#include <string>

#include "tests/simulation/world/scheduler.h"

namespace weft::sim::disk {

// Makes a disk with an empty folder. The number is the caller's to use below.
[[nodiscard]] unsigned make(const std::string& folder, std::uint64_t capacity_bytes);
[[nodiscard]] std::string path(unsigned disk);

// What the disk does from now on.
struct Behaviour {
  Ns read_time = 50 * kMicrosecond;   // of a read(2) that asks for what is not in memory, and of
  Ns write_time = 10 * kMicrosecond;  // a write, on average; the seed spreads them
  Ns sync_time = kMillisecond;
  std::uint64_t errors_in_million = 0;  // of reads, writes and syncs that end with EIO
  bool full = false;                    // ENOSPC for what needs more room
  bool stuck = false;                   // nothing that needs the disk comes back until false again
};
void behave(unsigned disk, const Behaviour& behaviour);

// Power fails: from now on nothing that is done below the old folder matters. Returns a new folder
// that holds what the disk has kept; path() is the new one.
std::string lose_power(unsigned disk);
// As lose_power(), but all that was written is there: the process died, the machine did not.
std::string keep_all(unsigned disk);

// For descriptors.cc: what read, write and the like do with a real descriptor. offset -1: where the
// descriptor stands. As the system calls: bytes, or -1 and errno.
[[nodiscard]] ssize_t preadv(int fd, const iovec* into, int count, off_t offset, int flags);
[[nodiscard]] ssize_t pwritev(int fd, const iovec* from, int count, off_t offset, int flags);
[[nodiscard]] int sync(int fd, bool data_only);
// The number is closed, or means another file from now on.
void forget(int fd);

}  // namespace weft::sim::disk
