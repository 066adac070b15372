// Simulated disks: a folder of the real file system for each node, whose files may lose what was
// not synced when power fails, and which may be slow, full or failing.
//
// A path below the node's folder (Disk::path()) is on its disk; the real file is always as the
// programs see it. Beside it the simulation keeps what would come back after a power failure
// (disk_state.h): for each change that no sync has made durable, how to undo it. lose_power()
// copies the folder as it might be found then, as ext4 and XFS (ordered data) might leave it:
//
//   - Changes of folders, and sizes that shrink, become durable in their order: of those that no
//     sync has covered some prefix is found. Any fsync covers all before it; an fdatasync does when
//     the file is new or its size has changed.
//   - Overwritten sectors of 512 bytes are found new or old, each by itself. What was appended is
//     found up to some point (Behaviour::holes: with holes, too).
//   - After a sync that failed, some of what it should have written is never written, though reads
//     see it and later syncs succeed.
//
// Beside a disk's folder F there are F/<n> for its n-th life, and F/<n>.files, the simulation's own
// name for each file. Who made F removes it. A file is not to be written through a mapping.
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
// How many there are.
[[nodiscard]] unsigned count();

// What the disk does from now on.
struct Behaviour {
  Ns read_time = 50 * kMicrosecond;   // of a read(2) that asks for what is not in memory, and of
  Ns write_time = 10 * kMicrosecond;  // a write, on average; the seed spreads them
  Ns sync_time = kMillisecond;
  std::uint64_t errors_in_million = 0;  // of reads, writes and syncs that end with EIO
  bool full = false;                    // ENOSPC for what needs more room
  bool holes = false;                   // what was appended may come back with holes, too
  bool stuck = false;                   // nothing that needs the disk comes back until false again
};
void behave(unsigned disk, const Behaviour& behaviour);

// Power fails: from now on nothing that is done below the old folder matters. Returns a new folder
// that holds what the disk has kept; path() is the new one.
// Not from an event. Work that is stuck or under way below the old folder goes on.
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
