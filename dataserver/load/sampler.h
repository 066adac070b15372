// How busy a data server is, measured once for each heartbeat.
//
// What is looked at is configured (LoadOptions::counters):
//
//   "machine"   the whole machine: each CPU, its run queue, MemAvailable, the device the store is
//               on, all network interfaces (of this network namespace) but the loopback and those
//               that have others beneath them
//   "process"   this process: its CPU time over all CPUs, its runnable threads, the bytes it read
//               and wrote at disks, what its clients sent and got; memory is the machine's
//   a folder    a cgroup (version 2): cpu.stat against cpu.max, cgroup.threads, memory.current and
//               .max, io.stat; the network is that of the namespace. A controller that is not
//               enabled: the machine. Limits of groups above it are not looked at
//
// The last two are for several data servers on one machine. Rates are those since the sample
// before; the first sample has none. The run queue is averaged over five seconds, by which a server
// is judged, and over a minute, which is only told. What cannot be read counts as idle, and is
// complained of once.
//
// Streams of the disk are those of clients here, or as many operations as were in the device's
// queue on average, if that is more: the queue holds what other programs read and write, too. The
// queue is the machine's, so a process or a cgroup with an io.stat has streams of clients alone.
//
// What others use of the disk is what it moves, less what this process reads and writes at disks
// for its clients. The process's reads are those of the kernel: what comes out of memory is none.
// Its reads for other data servers, which come from the disk, are not its clients'; of its writes
// those are that clients sent. With objects elsewhere that is not known.
//
// Threading: a source belongs to one thread at a time; run_queues() may be called on any.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataserver/load/learnt_maximum.h"
#include "dataserver/load/proc.h"
#include "layout/load.h"
#include "rpc/base/clock.h"
#include "rpc/base/error.h"

namespace weft::ds {

struct LoadOptions {
  std::string counters = "machine";
  std::uint64_t disk_max = 0;  // bytes per second; 0: learnt
  std::uint64_t net_max = 0;   // each way; 0: learnt
  bool here = true;            // objects are in files of this process
  bool page_cache = true;      // objects may be in it; if not, no memory counts as free for them
};

// What only the server itself knows.
struct OwnWork {
  std::uint32_t streams = 0;      // that did I/O since the sample before
  ByteTotals network;             // since the start: received from clients, sent to them
  std::uint64_t for_servers = 0;  // of those sent, what other data servers read
};

class LoadSource {
 public:
  LoadSource() = default;
  LoadSource(const LoadSource&) = delete;
  LoadSource& operator=(const LoadSource&) = delete;
  virtual ~LoadSource() = default;
  [[nodiscard]] virtual layout::ServerLoad sample(const OwnWork& own) = 0;
};

// The kernel's files, so that tests can write their own.
class KernelFiles {
 public:
  KernelFiles() = default;
  KernelFiles(const KernelFiles&) = delete;
  KernelFiles& operator=(const KernelFiles&) = delete;
  virtual ~KernelFiles() = default;
  // The whole file, at most 1 MiB of it.
  [[nodiscard]] virtual Result<std::string> read(const std::string& path) = 0;
  // The names in a folder; empty when it cannot be read.
  [[nodiscard]] virtual std::vector<std::string> list(const std::string& folder) = 0;
  // The device a file is on.
  [[nodiscard]] virtual Result<DeviceNumber> device_of(const std::string& path) = 0;
  // CPUs this process may use, and ticks per second of its CPU times.
  [[nodiscard]] virtual unsigned cpus() = 0;
  [[nodiscard]] virtual unsigned ticks_per_second() = 0;
  // The thread that asks.
  [[nodiscard]] virtual std::uint32_t own_thread() = 0;
};

[[nodiscard]] std::unique_ptr<KernelFiles> kernel_files();
// Bytes that a device has read and written: they do not grow while it hangs.
[[nodiscard]] Result<std::uint64_t> bytes_moved(KernelFiles& files,
                                                const Result<DeviceNumber>& device);
// Whether the kernel says that the device turns; not of what is no block device.
[[nodiscard]] bool rotates(KernelFiles& files, const Result<DeviceNumber>& device);
// Operations that wait or are under way at a device; 0 when that is not told.
[[nodiscard]] std::uint64_t disk_queue(KernelFiles& files, const Result<DeviceNumber>& device);

class SystemLoad final : public LoadSource {
 public:
  // `files` and `clock` outlive it. `store` is the folder whose device is watched.
  SystemLoad(LoadOptions options, const std::string& store, KernelFiles& files, Clock& clock);

  [[nodiscard]] layout::ServerLoad sample(const OwnWork& own) override;

  // Threads that run or want to, on average, in thousandths.
  struct RunQueues {
    std::uint32_t five_seconds = 0;
    std::uint32_t minute = 0;
  };
  [[nodiscard]] RunQueues run_queues() const;

 private:
  enum class Scope { kMachine, kProcess, kCgroup };
  struct DiskTotals {
    ByteTotals bytes;
    std::uint64_t wait_ms = 0;  // of all operations; 0: no device of the machine is looked at
  };
  struct Totals {
    TimePoint at{};
    std::vector<CpuTimes> cpus;  // one, of all CPUs together, unless of the machine
    DiskTotals disk;
    ByteTotals net;
    std::optional<ByteTotals> own_disk;  // of this process
    OwnWork own;
  };

  [[nodiscard]] Totals totals(const OwnWork& own);
  [[nodiscard]] std::vector<CpuTimes> cpus(TimePoint now);
  [[nodiscard]] DiskTotals disk();
  [[nodiscard]] ByteTotals net(const OwnWork& own);
  // What clients here move at the disk, bytes a second, since the sample before.
  [[nodiscard]] std::optional<std::uint64_t> for_clients(const Totals& now, double seconds) const;
  [[nodiscard]] std::uint64_t memory();
  [[nodiscard]] std::uint64_t machine_memory();
  [[nodiscard]] CpuTimes group_cpu(std::uint64_t used_us, std::uint64_t us, std::uint64_t total);
  [[nodiscard]] std::uint64_t runnable();
  void average_run_queues(std::uint64_t now, double seconds);
  [[nodiscard]] static std::vector<std::uint8_t> busy(const std::vector<CpuTimes>& before,
                                                      const std::vector<CpuTimes>& now);
  template <class T>
  T or_idle(Result<T> read, T idle);
  // A file of the cgroup, when that is what is looked at and the controller is enabled.
  [[nodiscard]] Result<std::string> cgroup(const char* name);

  const LoadOptions options_;
  const Scope scope_;
  KernelFiles& files_;
  Clock& clock_;
  Result<DeviceNumber> device_;
  bool complained_ = false;
  Totals last_;
  double run_queue_ = 0;
  double run_queue_minute_ = 0;
  std::atomic<RunQueues> run_queues_;
  std::uint64_t runnable_ = 0;  // /proc/stat has CPUs and run queue: read once a sample
  LearntMaximum disk_max_;
  LearntMaximum net_max_;
};

}  // namespace weft::ds
