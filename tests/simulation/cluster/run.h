// One seed: a cluster, clients at work, faults of all kinds at once, quiet, and what must hold
// then.
//
// Threading: as scheduler.h.
#pragma once

#include <cstdint>
#include <string>

namespace weft::sim {

// Where data servers have their objects: in their own folders, there with checksums, with segments
// or with both, at one target that serves them all, or at one parity group of two, three or five
// targets; kAny: the seed says.
enum class StoreKind { kAny, kFolder, kChecksums, kSegments, kBoth, kTarget, kParity };

// How data servers reach targets; kAny: the seed says.
enum class Transport { kAny, kTcp, kSharedMemory };
// Of the export; kAny: the seed says.
enum class Layouts { kAny, kFiles, kFlexFiles };

struct RunOptions {
  unsigned data_servers = 4;
  unsigned clients = 3;
  unsigned files = 2;          // of each client
  unsigned blocks = 12;        // of each file
  unsigned operations = 40;    // of each client
  unsigned copies = 0;         // 0: two, or one in a fifth of the seeds
  unsigned stripes = 0;        // 0: all data servers, or what the layout type allows
  unsigned faults = 8;         // when one thread makes them (faults.h)
  unsigned fault_threads = 0;  // 0: one, or more in half of the seeds
  // In one seed of so many disks fail: reads, writes and syncs end with EIO, too. 0: in none.
  unsigned failing_disks = 4;
  StoreKind stores = StoreKind::kAny;
  // How stores are used, in every seed; else the seed says.
  bool direct = false;
  bool cached = false;  // where there may be a cache
  Transport transport = Transport::kAny;
  Layouts layouts = Layouts::kAny;
  std::string folder;  // for the disks
};

// In a simulation. What does not hold ends the process (scheduler.h); else a line for people.
std::string run_cluster(const RunOptions& options);

// What a cluster costs without faults. Times are the real processor's, of what ran on machines of
// the kind, with what the simulation does in their calls; `own` is the simulation's between them.
struct Costs {
  struct Times {
    double metadata_server = 0;
    double data_servers = 0;  // all of them
    double clients = 0;
    double own = 0;
  };
  std::uint64_t operations = 0;
  Times us_an_operation;
  double switches_an_operation = 0;
  Times idle_us_a_second;  // of simulated time, before anybody works
  double started_mib = 0;  // resident, once the cluster is up
  double worked_mib = 0;   // when the work is done
};
Costs measure_cluster(const RunOptions& options);

}  // namespace weft::sim
