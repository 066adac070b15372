// Workloads over a Mount, every latency counted, until the time is up. Closed: so many operations
// outstanding at all times. Open: operations come by themselves, at random times (Poisson), so many
// a second; what is more than may be outstanding waits, and its latency counts from when it came.
// Once: each block of the file, in order, and then it ends.
//
// Threading: run() blocks the main thread; the operations run on the engine's I/O thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "tools/load/histogram.h"
#include "tools/load/mount.h"

namespace weft::load {

enum class Kind { kRead, kWrite };

struct Workload {
  Kind kind = Kind::kRead;
  bool random = false;
  std::uint32_t block = 1 << 20;  // bytes; must divide the stripe unit, or be divided by it
  std::uint64_t file_size = 256 << 20;
  unsigned depth = 8;  // operations outstanding
  double rate = 0;     // open: operations a second; 0: closed
  std::chrono::milliseconds duration{5000};
  std::uint64_t seed = 1;
  double start_at = 0;  // Unix time; 0: at once. So that several generators begin together
  bool once = false;    // each block once, in order, instead of for a time
  bool verify = false;  // reads are checked against the pattern that writes write
  rpc::nfs4::StableHow stable = rpc::nfs4::StableHow::UNSTABLE4;
};

struct Outcome {
  std::uint64_t operations = 0;
  std::uint64_t bytes = 0;
  double seconds = 0;
  Histogram latency;
};

// Writes the whole file once with the pattern of `seed` and commits it.
[[nodiscard]] Result<> prepare(Engine& engine, Mount& mount, File& file, std::uint64_t size,
                               std::uint64_t seed);
// The first failed operation ends the run and is the error; kCorrupt names the offset where a
// verified read differed. An operation that is refused as by a fence (NFS4ERR_ACCESS, files layout)
// is none: when all under way have ended the file gets another layout, and it is done once more.
[[nodiscard]] Result<Outcome> run(Engine& engine, Mount& mount, File& file,
                                  const Workload& workload);

}  // namespace weft::load
