// Parsers of what the kernel tells in /proc and in a cgroup (version 2).
//
// The kernel is believed to mean well, not to write what this code expects: a line that is wanted
// and malformed is kInvalid, one that is not there kNotFound. Numbers of bytes and ticks are totals
// since boot, or since the process or cgroup began.
//
// Threading: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/base/error.h"

namespace weft::ds {

constexpr std::size_t kMaxCpus = 1024;  // those beyond are not looked at

struct CpuTimes {
  std::uint32_t cpu = 0;
  std::uint64_t busy = 0;  // ticks; all but idle and iowait
  std::uint64_t total = 0;
  std::uint64_t grain = 0;  // `busy` of an interval may be so much less than what was used in it
  friend bool operator==(const CpuTimes&, const CpuTimes&) = default;
};

struct MachineStat {
  std::vector<CpuTimes> cpus;  // those online, in order
  std::uint64_t runnable = 0;  // threads that run or want to
};

struct ByteTotals {
  std::uint64_t in = 0;   // read, received
  std::uint64_t out = 0;  // written, sent
  friend bool operator==(const ByteTotals&, const ByteTotals&) = default;
};

struct Interface {
  std::string name;
  ByteTotals bytes;
  friend bool operator==(const Interface&, const Interface&) = default;
};

struct ThreadStat {
  bool runnable = false;
  std::uint64_t ticks = 0;  // user and system, of the whole process in /proc/self/stat
};

struct DeviceNumber {
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
};

// /proc/stat.
[[nodiscard]] Result<MachineStat> parse_machine_stat(std::string_view text);
// /proc/meminfo: MemAvailable in bytes.
[[nodiscard]] Result<std::uint64_t> parse_memory_available(std::string_view text);
// /proc/self/net/dev: all interfaces but the loopback.
[[nodiscard]] Result<std::vector<Interface>> parse_net_dev(std::string_view text);
// /proc/diskstats: one device, a partition or a whole disk.
[[nodiscard]] Result<ByteTotals> parse_diskstats(std::string_view text, DeviceNumber device);
// The same: operations that wait or are under way at it.
[[nodiscard]] Result<std::uint64_t> parse_disk_queue(std::string_view text, DeviceNumber device);
// The same: milliseconds that its operations, all together, have waited and been under way.
[[nodiscard]] Result<std::uint64_t> parse_disk_wait(std::string_view text, DeviceNumber device);
// /proc/self/io.
[[nodiscard]] Result<ByteTotals> parse_process_io(std::string_view text);
// /proc/self/stat, /proc/<thread>/stat.
[[nodiscard]] Result<ThreadStat> parse_thread_stat(std::string_view text);

// A cgroup's cpu.stat: microseconds used.
[[nodiscard]] Result<std::uint64_t> parse_cgroup_cpu(std::string_view text);
// Its cpu.max; kNotFound for "max".
struct CpuLimit {
  std::uint64_t quota_us = 0;  // of all processors together, in each period
  std::uint64_t period_us = 0;
  friend bool operator==(const CpuLimit&, const CpuLimit&) = default;
};
[[nodiscard]] Result<CpuLimit> parse_cgroup_cpu_max(std::string_view text);
// Its io.stat: one device. A device it has not used yet is not there: zeros.
[[nodiscard]] Result<ByteTotals> parse_cgroup_io(std::string_view text, DeviceNumber device);
// memory.current, memory.max; "max" is UINT64_MAX.
[[nodiscard]] Result<std::uint64_t> parse_cgroup_bytes(std::string_view text);
// memory.stat: page cache that would be given up first.
[[nodiscard]] Result<std::uint64_t> parse_cgroup_page_cache(std::string_view text);
// cgroup.threads; at most `limit`.
[[nodiscard]] Result<std::vector<std::uint32_t>> parse_thread_list(std::string_view text,
                                                                   std::size_t limit);

}  // namespace weft::ds
