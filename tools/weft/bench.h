// bench: how fast a mounted folder is, for whoever may write there.
//
//   streams   each thread writes a file from its start to its end, with fsync(2), and reads it
//   names     each thread makes empty files, asks for their attributes, and removes them
//   small     each thread writes small files, closing each, and reads them
//
// What was written is dropped from the page cache before it is read. Each of these steps ends when
// its work is done, or after the limit. All of it happens in a directory of its own, which is
// removed in the end: also after an error, and when the process is told to end. A process that is
// killed leaves it: weft-bench.XXXXXX.
//
// Threading: run_bench() has threads of its own, and waits for them.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "rpc/base/error.h"
#include "rpc/xdr/describe_json.h"
#include "tools/weft/commands.h"

namespace weft::cli {

struct BenchOptions {
  std::string folder = ".";
  std::vector<std::string> only;  // "streams", "names", "small"; empty: all
  unsigned threads = 4;
  std::uint64_t stream_bytes = std::uint64_t{256} << 20;  // of each thread's file
  std::uint64_t files = 1000;                             // of each thread
  std::uint64_t small_bytes = 4096;                       // of each small file
  double limit_s = 30;                                    // of each step
};

struct BenchStep {
  std::string name;
  std::uint64_t operations = 0;
  std::uint64_t bytes = 0;  // 0: of names
  double seconds = 0;
};
struct BenchReport {
  bool nfs = false;  // the folder is on an NFS mount
  std::vector<BenchStep> steps;
};

// kCancelled once `stop` is set; kNoSpace before anything is made when there is too little room.
[[nodiscard]] Result<BenchReport> run_bench(const BenchOptions& options,
                                            const std::atomic<bool>& stop);
[[nodiscard]] int bench_command(const Settings& settings, const BenchOptions& options);

[[nodiscard]] std::string bench_text(const BenchOptions& options, const BenchReport& report);
[[nodiscard]] Json bench_json(const BenchOptions& options, const BenchReport& report);

}  // namespace weft::cli
