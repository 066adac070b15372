#include "dataserver/load/sampler.h"

#include <sched.h>
#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

namespace weft::ds {

namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{1} << 20;
constexpr std::size_t kMaxThreads = 4096;
constexpr double kRunQueueSeconds = 5;
constexpr double kRunQueueMinute = 60;
// What a resource is believed to give before it has shown more: one disk, a gigabit each way.
constexpr std::uint64_t kDiskFloor = 100'000'000;
constexpr std::uint64_t kNetFloor = 117'000'000;

class RealFiles final : public KernelFiles {
 public:
  Result<std::string> read(const std::string& path) override {
    std::ifstream file(path);
    if (!file) return fail(Errc::kNotFound, path);
    std::string text(kMaxFileBytes, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (file.bad()) return fail(Errc::kIo, path);
    text.resize(static_cast<std::size_t>(file.gcount()));
    return text;
  }
  std::vector<std::string> list(const std::string& folder) override {
    std::vector<std::string> names;
    std::error_code error;
    std::filesystem::directory_iterator at(folder, error);
    for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
      names.push_back(at->path().filename().string());
    }
    return names;
  }
  Result<DeviceNumber> device_of(const std::string& path) override {
    struct stat found{};
    if (::stat(path.c_str(), &found) != 0) return fail_errno(errno, "stat " + path);
    return DeviceNumber{major(found.st_dev), minor(found.st_dev)};
  }
  unsigned cpus() override {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    return static_cast<unsigned>(std::max(1, CPU_COUNT(&set)));
  }
  unsigned ticks_per_second() override {
    return static_cast<unsigned>(std::max(1L, ::sysconf(_SC_CLK_TCK)));
  }
  std::uint32_t own_thread() override { return static_cast<std::uint32_t>(::gettid()); }
};

template <class Parse, class... More>
auto parsed(const Result<std::string>& text, Parse parse, More... more)
    -> decltype(parse(std::string_view{}, more...)) {
  if (!text) return std::unexpected(text.error());
  return parse(std::string_view(*text), more...);
}

std::uint64_t rate(std::uint64_t before, std::uint64_t now, double seconds) {
  if (now <= before || seconds <= 0) return 0;  // counters of a device that went and came back
  return static_cast<std::uint64_t>(static_cast<double>(now - before) / seconds);
}

std::uint32_t milli(double value) { return static_cast<std::uint32_t>(value * 1000); }

// Operations in a queue on average, in which they spent so many milliseconds all together.
std::uint32_t mean_queue(std::uint64_t before_ms, std::uint64_t now_ms, double seconds) {
  constexpr std::uint64_t kMost = 100'000;
  const std::uint64_t ms_a_second = rate(before_ms, now_ms, seconds);
  return static_cast<std::uint32_t>(std::min((ms_a_second + 500) / 1000, kMost));
}

// A bond, a VLAN, a bridge: what passes is counted at the interfaces beneath it, too.
bool is_over_others(KernelFiles& files, const std::string& interface) {
  return std::ranges::any_of(files.list("/sys/class/net/" + interface + "/"),
                             [](const std::string& name) { return name.starts_with("lower_"); });
}

layout::DeviceLoad resource(std::uint64_t configured, LearntMaximum& learnt, std::uint64_t used,
                            std::uint32_t streams, Nanoseconds span) {
  learnt.observe(used, span);
  return {.used = used, .max = configured != 0 ? configured : learnt.value(), .streams = streams};
}

}  // namespace

std::unique_ptr<KernelFiles> kernel_files() { return std::make_unique<RealFiles>(); }

SystemLoad::SystemLoad(LoadOptions options, const std::string& store, KernelFiles& files,
                       Clock& clock)
    : options_(std::move(options)),
      scope_(options_.counters == "machine"   ? Scope::kMachine
             : options_.counters == "process" ? Scope::kProcess
                                              : Scope::kCgroup),
      files_(files),
      clock_(clock),
      device_(files.device_of(store)),
      disk_max_(kDiskFloor),
      net_max_(kNetFloor) {}

template <class T>
T SystemLoad::or_idle(Result<T> read, T idle) {
  if (read) return std::move(*read);
  if (!std::exchange(complained_, true)) {
    spdlog::warn("event=load_unknown error=\"{}\"", read.error().describe());
  }
  return idle;
}

Result<std::string> SystemLoad::cgroup(const char* name) {
  if (scope_ != Scope::kCgroup) return fail(Errc::kNotFound);
  return files_.read(options_.counters + "/" + name);
}

// What a group used, against what it may use. A limit is handed out by periods, of which a
// heartbeat sees one more or less; so time is counted in whole periods.
CpuTimes SystemLoad::group_cpu(std::uint64_t used_us, std::uint64_t us, std::uint64_t total) {
  const auto limit = parsed(cgroup("cpu.max"), parse_cgroup_cpu_max);
  const double share =
      limit ? static_cast<double>(limit->quota_us) / static_cast<double>(limit->period_us) : 0;
  if (!limit || share >= files_.cpus()) return {.busy = used_us, .total = total};
  return {.busy = used_us,
          .total = static_cast<std::uint64_t>(static_cast<double>(us) * share),
          .grain = limit->quota_us};
}

std::vector<CpuTimes> SystemLoad::cpus(TimePoint now) {
  const std::uint64_t us = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count());
  const std::uint64_t total = us * files_.cpus();
  if (scope_ == Scope::kProcess) {
    const auto own = parsed(files_.read("/proc/self/stat"), parse_thread_stat);
    const ThreadStat stat = or_idle(own, ThreadStat{});
    return {{.busy = stat.ticks * 1'000'000 / files_.ticks_per_second(), .total = total}};
  }
  if (const auto used = parsed(cgroup("cpu.stat"), parse_cgroup_cpu)) {
    return {group_cpu(*used, us, total)};
  }
  auto machine = or_idle(parsed(files_.read("/proc/stat"), parse_machine_stat), MachineStat{});
  runnable_ = machine.runnable;
  return std::move(machine.cpus);
}

std::uint64_t SystemLoad::runnable() {
  const std::string tasks = "/proc/self/task/";
  std::vector<std::string> threads;
  if (scope_ == Scope::kMachine) return runnable_ - std::min<std::uint64_t>(runnable_, 1);
  if (scope_ == Scope::kProcess) {
    for (const std::string& name : files_.list(tasks)) threads.push_back(tasks + name + "/stat");
  } else {
    const auto read = cgroup("cgroup.threads");
    const auto ids = or_idle(parsed(read, parse_thread_list, kMaxThreads), {});
    // The thread that asks always runs: it is not counted.
    for (const std::uint32_t id : ids) {
      if (id != files_.own_thread()) threads.push_back("/proc/" + std::to_string(id) + "/stat");
    }
  }
  std::uint64_t count = 0;
  for (const std::string& path : threads) {
    const auto stat = parsed(files_.read(path), parse_thread_stat);
    if (stat && stat->runnable) ++count;  // one that ended meanwhile does not run
  }
  return scope_ == Scope::kProcess ? count - std::min<std::uint64_t>(count, 1) : count;
}

SystemLoad::DiskTotals SystemLoad::disk() {
  const auto own = [this] { return parsed(files_.read("/proc/self/io"), parse_process_io); };
  if (scope_ == Scope::kProcess) return {.bytes = or_idle(own(), {})};
  if (device_) {
    if (const auto io = parsed(cgroup("io.stat"), parse_cgroup_io, *device_)) return {.bytes = *io};
    const auto stats = files_.read("/proc/diskstats");
    if (const auto bytes = parsed(stats, parse_diskstats, *device_)) {
      return {.bytes = *bytes, .wait_ms = parsed(stats, parse_disk_wait, *device_).value_or(0)};
    }
  }
  // A file system without a device of its own (btrfs, overlayfs, a network): what we do there.
  return {.bytes = or_idle(own(), {})};
}

ByteTotals SystemLoad::net(const OwnWork& own) {
  if (scope_ == Scope::kProcess) return own.network;
  ByteTotals sum;
  const auto interfaces = parsed(files_.read("/proc/self/net/dev"), parse_net_dev);
  for (const Interface& one : or_idle(interfaces, {})) {
    if (is_over_others(files_, one.name)) continue;
    sum.in += one.bytes.in;
    sum.out += one.bytes.out;
  }
  return sum;
}

std::uint64_t SystemLoad::machine_memory() {
  return or_idle(parsed(files_.read("/proc/meminfo"), parse_memory_available), std::uint64_t{0});
}

std::uint64_t SystemLoad::memory() {
  const std::uint64_t machine = machine_memory();
  const auto limit = parsed(cgroup("memory.max"), parse_cgroup_bytes);
  const auto used = parsed(cgroup("memory.current"), parse_cgroup_bytes);
  if (!limit || !used) return machine;
  const auto cache = parsed(cgroup("memory.stat"), parse_cgroup_page_cache);
  const std::uint64_t held = *used - std::min(*used, cache.value_or(0));
  return std::min(machine, *limit - std::min(*limit, held));
}

SystemLoad::Totals SystemLoad::totals(const OwnWork& own) {
  Totals now;
  now.at = clock_.now();
  now.cpus = cpus(now.at);
  now.disk = disk();
  now.net = net(own);
  now.own = own;
  if (const auto io = parsed(files_.read("/proc/self/io"), parse_process_io); io && options_.here) {
    now.own_disk = *io;
  }
  return now;
}

std::optional<std::uint64_t> SystemLoad::for_clients(const Totals& now, double seconds) const {
  if (!now.own_disk || !last_.own_disk) return std::nullopt;
  const std::uint64_t in = rate(last_.own_disk->in, now.own_disk->in, seconds);
  const std::uint64_t servers = rate(last_.own.for_servers, now.own.for_servers, seconds);
  const std::uint64_t out = rate(last_.own_disk->out, now.own_disk->out, seconds);
  const std::uint64_t sent = rate(last_.own.network.in, now.own.network.in, seconds);
  return in - std::min(in, servers) + std::min(out, sent);
}

std::vector<std::uint8_t> SystemLoad::busy(const std::vector<CpuTimes>& before,
                                           const std::vector<CpuTimes>& now) {
  std::vector<std::uint8_t> all;
  for (const CpuTimes& cpu : now) {
    const auto old = std::ranges::find(before, cpu.cpu, &CpuTimes::cpu);
    std::uint64_t percent = 0;
    if (old != before.end() && cpu.total > old->total && cpu.busy > old->busy) {
      percent = (cpu.busy - old->busy + cpu.grain) * 100 / (cpu.total - old->total);
    }
    all.push_back(static_cast<std::uint8_t>(std::min<std::uint64_t>(percent, 100)));
  }
  return all;
}

void SystemLoad::average_run_queues(std::uint64_t now, double seconds) {
  const auto queue = static_cast<double>(std::min<std::uint64_t>(now, 1'000'000));
  const auto average = [&](double& mean, double over) {
    mean += (queue - mean) * (1 - std::exp(-seconds / over));
  };
  average(run_queue_, kRunQueueSeconds);
  average(run_queue_minute_, kRunQueueMinute);
  run_queues_ = {.five_seconds = milli(run_queue_), .minute = milli(run_queue_minute_)};
}

SystemLoad::RunQueues SystemLoad::run_queues() const { return run_queues_; }

layout::ServerLoad SystemLoad::sample(const OwnWork& own) {
  Totals now = totals(own);
  const bool first = last_.at == TimePoint{};
  const Nanoseconds span = first ? Nanoseconds{0} : now.at - last_.at;
  const double seconds = std::chrono::duration<double>(span).count();
  if (first) last_ = now;
  // The first is all that is known.
  average_run_queues(runnable(), first ? std::numeric_limits<double>::infinity() : seconds);

  layout::ServerLoad load;
  load.cpu_percent = busy(last_.cpus, now.cpus);
  load.run_queue_milli = milli(run_queue_);
  load.memory_free = options_.page_cache ? memory() : 0;
  const ByteTotals& disk_before = last_.disk.bytes;
  const ByteTotals& disk_now = now.disk.bytes;
  const std::uint64_t disk =
      rate(disk_before.in, disk_now.in, seconds) + rate(disk_before.out, disk_now.out, seconds);
  const std::uint32_t queue = mean_queue(last_.disk.wait_ms, now.disk.wait_ms, seconds);
  const std::uint64_t net =
      std::max(rate(last_.net.in, now.net.in, seconds), rate(last_.net.out, now.net.out, seconds));
  load.disk = resource(options_.disk_max, disk_max_, disk, std::max(own.streams, queue), span);
  if (const auto own_use = for_clients(now, seconds)) {
    load.disk_others = disk - std::min(disk, *own_use);
  }
  load.network = resource(options_.net_max, net_max_, net, own.streams, span);
  last_ = std::move(now);
  return load;
}

bool rotates(KernelFiles& files, const Result<DeviceNumber>& device) {
  if (!device) return false;
  // A partition has no queue of its own: its disk's is one folder up.
  for (const char* const queue : {"queue", "../queue"}) {
    const auto text = files.read(
        fmt::format("/sys/dev/block/{}:{}/{}/rotational", device->major, device->minor, queue));
    if (text && !text->empty()) return text->front() == '1';
  }
  return false;
}

Result<std::uint64_t> bytes_moved(KernelFiles& files, const Result<DeviceNumber>& device) {
  if (!device) return std::unexpected(device.error());
  auto text = files.read("/proc/diskstats");
  if (!text) return pass(text);
  auto totals = parse_diskstats(*text, *device);
  if (!totals) return pass(totals);
  return totals->in + totals->out;
}

std::uint64_t disk_queue(KernelFiles& files, const Result<DeviceNumber>& device) {
  if (!device) return 0;
  auto text = files.read("/proc/diskstats");
  return text ? parse_disk_queue(*text, *device).value_or(0) : 0;
}

}  // namespace weft::ds
