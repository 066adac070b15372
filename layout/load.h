// Load: how busy a data server is, as it measures once a second and sends with its heartbeat; what
// placement and the choice between copies judge by.
//
// Units, for who measures and for who judges:
//
//   cpu_percent       for each CPU the server may run on, the share of the last interval it was not
//                     idle: 0 to 100, rounded down
//   run_queue_milli   threads that run or want to, averaged over five seconds, in thousandths
//   memory_free       bytes the page cache can still grow into (MemAvailable, or what the server's
//                     cgroup leaves)
//   disk, network     bytes a second. `used` is the mean over the last interval: reads and writes
//   of
//                     a disk together; of a full-duplex network the busier direction. `max` is the
//                     most the device can do (measured or configured); 0: not known. `streams` is
//                     how many requests or processes share the device at the moment.
//
// Where several servers share a machine, each measures itself (its process or cgroup) against its
// own share, not the whole machine.
//
// The estimator is CEFT-PVFS's D_i (Zhu et al.): what one more stream can expect.
//
// Threading: plain values and pure functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "rpc/xdr/describe.h"

namespace weft::layout {

constexpr std::size_t kMaxCpus = 1024;  // of one data server, in a heartbeat

struct DeviceLoad {
  std::uint64_t used = 0;  // bytes a second
  std::uint64_t max = 0;   // bytes a second; 0: not known
  std::uint32_t streams = 0;

  friend bool operator==(const DeviceLoad&, const DeviceLoad&) = default;
};
template <class Io>
void describe(Io& io, DeviceLoad& r) {
  io("used", r.used);
  io("max", r.max);
  io("streams", r.streams);
}

struct ServerLoad {
  std::vector<std::uint8_t> cpu_percent;  // one for each CPU; empty: not measured
  std::uint32_t run_queue_milli = 0;
  std::uint64_t memory_free = UINT64_MAX;  // bytes; UINT64_MAX: not measured
  DeviceLoad disk;
  DeviceLoad network;
  // Of disk.used, what others than the server's clients moved; nothing: not known.
  std::optional<std::uint64_t> disk_others = {};

  friend bool operator==(const ServerLoad&, const ServerLoad&) = default;
};
template <class Io>
void describe(Io& io, ServerLoad& r) {
  io("cpu_percent", r.cpu_percent, at_most(kMaxCpus));
  io("run_queue_milli", r.run_queue_milli);
  io("memory_free", r.memory_free);
  io("disk", r.disk);
  io("network", r.network);
  // disk_others is at the end of a heartbeat.
  io.check(std::ranges::all_of(r.cpu_percent, [](auto percent) { return percent <= 100; }));
}

// Bytes a second that one more stream can expect: min(max - used, max / (streams + 1)), and not
// below 0. 0 as well when max is not known.
[[nodiscard]] double available(const DeviceLoad& device);

// Every CPU at least 99% busy and the run queue above 2: nothing to spare for one more stream.
[[nodiscard]] bool cpu_is_busy(const ServerLoad& load);

}  // namespace weft::layout
