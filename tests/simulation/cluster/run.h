// One seed: a cluster, clients at work, faults of all kinds at once, quiet, and what must hold
// then.
//
// Threading: as scheduler.h.
#pragma once

#include <cstdint>
#include <string>

namespace weft::sim {

// Where data servers have their objects: in their own folders, at one target that serves them all,
// or at one parity group of three or five targets; kAny: the seed says.
enum class StoreKind { kAny, kFolder, kTarget, kParity };

// Of the export; kAny: the seed says.
enum class Layouts { kAny, kFiles, kFlexFiles };

struct RunOptions {
  unsigned data_servers = 4;
  unsigned clients = 3;
  unsigned files = 2;        // of each client
  unsigned blocks = 12;      // of each file
  unsigned operations = 40;  // of each client
  unsigned copies = 0;       // 0: two, or one in a fifth of the seeds
  unsigned faults = 8;
  // In one seed of so many disks fail: reads, writes and syncs end with EIO, too. 0: in none.
  unsigned failing_disks = 4;
  StoreKind stores = StoreKind::kAny;
  Layouts layouts = Layouts::kAny;
  std::string folder;  // for the disks
};

// In a simulation. What does not hold ends the process (scheduler.h); else a line for people.
std::string run_cluster(const RunOptions& options);

}  // namespace weft::sim
