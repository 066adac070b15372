// How busy this machine is, from /proc.
//
// Threading: a LoadSampler belongs to one thread. Pure functions parse, so that tests need no
// /proc.
#pragma once

#include <cstdint>
#include <string_view>

namespace weft::ds {

struct CpuTimes {
  std::uint64_t busy = 0;  // ticks since boot, all CPUs
  std::uint64_t total = 0;
};

struct MachineLoad {
  std::uint32_t cpu_busy_permille = 0;  // since the sample before; 0 in the first
  std::uint32_t run_queue_milli = 0;    // 1-minute load average in thousandths
  std::uint64_t memory_free_bytes = 0;  // that programs could have without swapping
};

// The first line of /proc/stat; zeros when it is malformed.
[[nodiscard]] CpuTimes parse_cpu_times(std::string_view stat);
// /proc/loadavg, thousandths.
[[nodiscard]] std::uint32_t parse_load_average(std::string_view loadavg);
// MemAvailable of /proc/meminfo, bytes.
[[nodiscard]] std::uint64_t parse_memory_available(std::string_view meminfo);

class LoadSampler {
 public:
  [[nodiscard]] MachineLoad sample();

 private:
  CpuTimes last_;
};

}  // namespace weft::ds
