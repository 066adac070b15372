#include "dataserver/load/sampler.h"

#include <catch2/catch_test_macros.hpp>
#include <map>

namespace weft::ds {
namespace {

using namespace std::chrono_literals;

class FakeFiles final : public KernelFiles {
 public:
  Result<std::string> read(const std::string& path) override {
    const auto found = texts.find(path);
    if (found == texts.end()) return fail(Errc::kNotFound, path);
    return found->second;
  }
  std::vector<std::string> list(const std::string& folder) override {
    std::vector<std::string> names;
    for (const auto& [path, text] : texts) {
      if (!path.starts_with(folder)) continue;
      const std::string rest = path.substr(folder.size());
      names.push_back(rest.substr(0, rest.find('/')));
    }
    return names;
  }
  Result<DeviceNumber> device_of(const std::string& /*path*/) override {
    return DeviceNumber{8, 1};
  }
  unsigned cpus() override { return 2; }
  unsigned ticks_per_second() override { return 100; }
  std::uint32_t own_thread() override { return 40; }

  void stat(std::uint64_t busy0, std::uint64_t busy1, std::uint64_t total, int running) {
    const auto cpu = [total](std::uint64_t busy) {
      return std::to_string(busy) + " 0 0 " + std::to_string(total - busy) + " 0 0 0 0\n";
    };
    texts["/proc/stat"] = "cpu0 " + cpu(busy0) + "cpu1 " + cpu(busy1) + "procs_running " +
                          std::to_string(running) + "\n";
  }
  void disk(std::uint64_t read_sectors, std::uint64_t written_sectors, std::uint64_t wait_ms = 0) {
    texts["/proc/diskstats"] = "8 1 sda1 1 1 " + std::to_string(read_sectors) + " 1 1 1 " +
                               std::to_string(written_sectors) + " 1 0 0 " +
                               std::to_string(wait_ms) + "\n";
  }
  void net(std::uint64_t in, std::uint64_t out) {
    texts["/proc/self/net/dev"] =
        "-\n-\neth0: " + std::to_string(in) + " 0 0 0 0 0 0 0 " + std::to_string(out) + " 0\n";
  }

  std::map<std::string, std::string> texts{{"/proc/meminfo", "MemAvailable: 1000 kB\n"}};
};

struct Rig {
  explicit Rig(LoadOptions options = {}) : load(std::move(options), "/srv", files, clock) {}
  layout::ServerLoad sample(OwnWork own = {}) { return load.sample(own); }
  FakeFiles files;
  ManualClock clock;
  SystemLoad load;
};

TEST_CASE("what passes a bond and a VLAN over it is counted once") {
  Rig rig({.net_max = 2'000'000});
  const auto network = [&rig](std::uint64_t first, std::uint64_t second) {
    const auto line = [](const std::string& name, std::uint64_t bytes) {
      return name + ": " + std::to_string(bytes) + " 0 0 0 0 0 0 0 0 0\n";
    };
    rig.files.texts["/proc/self/net/dev"] = "-\n-\n" + line("lo", 5) + line("eth0", first) +
                                            line("eth1", second) + line("bond0", first + second) +
                                            line("bond0.10", first + second);
  };
  for (const char* const link : {"bond0/lower_eth0", "bond0/lower_eth1", "bond0.10/lower_bond0",
                                 "bond0/upper_bond0.10", "eth0/upper_bond0", "eth1/upper_bond0"}) {
    rig.files.texts[std::string("/sys/class/net/") + link] = "";
  }
  network(0, 0);
  static_cast<void>(rig.sample());
  rig.clock.advance(1s);
  network(300'000, 500'000);
  CHECK(rig.sample().network.used == 800'000);
}

TEST_CASE("a machine: each CPU, its run queue, memory, disk and network") {
  Rig rig({.disk_max = 1'000'000, .net_max = 2'000'000});
  rig.files.stat(100, 0, 1000, 1);
  rig.files.disk(0, 0);
  rig.files.net(0, 0);
  const layout::ServerLoad first = rig.sample();
  CHECK(first.cpu_percent == std::vector<std::uint8_t>{0, 0});
  CHECK(first.run_queue_milli == 0);
  CHECK(first.memory_free == 1000 * 1024);
  CHECK(first.disk == layout::DeviceLoad{0, 1'000'000, 0});

  rig.clock.advance(2s);
  rig.files.stat(200, 50, 1200, 5);
  rig.files.disk(1000, 2000);  // 1,536,000 bytes in two seconds
  rig.files.net(3'000'000, 1'000'000);
  const layout::ServerLoad second = rig.sample({.streams = 3});
  CHECK(second.cpu_percent == std::vector<std::uint8_t>{50, 25});
  CHECK(second.run_queue_milli == 1318);  // 4 (1 - e^-2/5): the asking thread is not counted
  CHECK(second.disk == layout::DeviceLoad{768'000, 1'000'000, 3});
  CHECK(second.network == layout::DeviceLoad{1'500'000, 2'000'000, 3});
  for (int i = 0; i < 100; ++i) {
    rig.clock.advance(1s);
    static_cast<void>(rig.sample());
  }
  CHECK(rig.sample().run_queue_milli == 3999);
}

TEST_CASE("the run queue's average over a minute goes up and down slower than that judged by") {
  Rig rig;
  rig.files.stat(0, 0, 10, 1);
  static_cast<void>(rig.sample());
  CHECK(rig.load.run_queues().minute == 0);
  rig.files.stat(0, 0, 20, 9);
  for (int i = 0; i < 60; ++i) {
    rig.clock.advance(1s);
    static_cast<void>(rig.sample());
  }
  const auto busy = rig.load.run_queues();
  CHECK(busy.minute == 5056);  // 8 (1 - 1/e)
  CHECK(busy.five_seconds == 7999);
  rig.files.stat(0, 0, 30, 1);
  rig.clock.advance(30s);
  const layout::ServerLoad idle = rig.sample();
  CHECK(rig.load.run_queues().minute == 3067);  // what is left of it after half a minute
  CHECK(rig.load.run_queues().five_seconds == idle.run_queue_milli);
  CHECK(idle.run_queue_milli == 19);
}

TEST_CASE("the run queue that the first sample finds is the average") {
  Rig rig;
  rig.files.stat(0, 0, 10, 4);
  CHECK(rig.sample().run_queue_milli == 3000);
  CHECK(rig.load.run_queues().minute == 3000);
}

TEST_CASE("other programs' streams at the disk count, as many as are in its queue") {
  Rig rig({.disk_max = 9'000'000});
  rig.files.disk(0, 0, 1000);
  CHECK(rig.sample({.streams = 1}).disk.streams == 1);
  rig.clock.advance(2s);
  rig.files.disk(1000, 1000, 1000 + 7900);  // four at a time, nearly
  const layout::ServerLoad shared = rig.sample({.streams = 1});
  CHECK(shared.disk.streams == 4);
  CHECK(shared.network.streams == 1);
  CHECK(layout::available(shared.disk) == 9e6 / 5);

  rig.clock.advance(1s);
  rig.files.disk(1000, 1000, 9300);  // a third of an operation
  CHECK(rig.sample({.streams = 3}).disk.streams == 3);
  rig.clock.advance(1s);
  rig.files.disk(0, 0, 0);  // another disk
  CHECK(rig.sample().disk.streams == 0);
}

TEST_CASE("what others use of the disk is not hidden by what clients read out of memory") {
  Rig rig;
  const auto io = [&rig](std::uint64_t in, std::uint64_t out) {
    rig.files.texts["/proc/self/io"] =
        "read_bytes: " + std::to_string(in) + "\nwrite_bytes: " + std::to_string(out) + "\n";
  };
  io(0, 0);
  rig.files.disk(0, 0);
  CHECK(rig.sample().disk_others == 0);
  rig.clock.advance(1s);
  rig.files.disk(1000, 0);  // 512,000 bytes, of which this process read a fifth
  io(102'400, 0);
  CHECK(rig.sample({.network = {.out = 900'000}}).disk_others == 409'600);
  rig.clock.advance(1s);
  rig.files.disk(2000, 0);  // and half of what it read this time was for another data server
  io(614'400, 0);
  CHECK(rig.sample({.network = {.out = 1'800'000}, .for_servers = 256'000}).disk_others == 256'000);
  rig.clock.advance(1s);
  rig.files.disk(2000, 1000);  // it wrote more than its clients did: to make its copies equal
  io(614'400, 512'000);
  CHECK(rig.sample({.network = {.in = 100'000, .out = 1'800'000}, .for_servers = 256'000})
            .disk_others == 412'000);
  rig.clock.advance(1s);
  rig.files.texts.erase("/proc/self/io");
  CHECK_FALSE(rig.sample().disk_others);
}

TEST_CASE("of objects elsewhere this process does not know who uses their disk") {
  Rig rig({.here = false});
  rig.files.texts["/proc/self/io"] = "read_bytes: 0\nwrite_bytes: 0\n";
  rig.files.disk(0, 0);
  static_cast<void>(rig.sample());
  rig.clock.advance(1s);
  CHECK_FALSE(rig.sample().disk_others);
}

TEST_CASE("who is judged by its own counters has no streams of others") {
  for (const char* const counters : {"process", "/cg"}) {
    Rig rig({.counters = counters});
    rig.files.texts["/proc/self/io"] = "read_bytes: 0\nwrite_bytes: 0\n";
    rig.files.texts["/cg/io.stat"] = "8:1 rbytes=0 wbytes=0\n";
    rig.files.disk(0, 0, 0);
    static_cast<void>(rig.sample());
    rig.clock.advance(1s);
    rig.files.disk(0, 0, 9000);
    CHECK(rig.sample({.streams = 2}).disk.streams == 2);
  }
}

TEST_CASE("maxima are learnt when not configured") {
  Rig rig;
  rig.files.stat(0, 0, 10, 1);
  rig.files.disk(0, 0);
  rig.files.net(0, 0);
  CHECK(rig.sample().disk.max == 100'000'000);
  rig.clock.advance(1s);
  rig.files.disk(1'000'000, 0);  // 512 MB/s
  const layout::ServerLoad busy = rig.sample({.streams = 1});
  CHECK(busy.disk == layout::DeviceLoad{512'000'000, 512'000'000, 1});
  rig.clock.advance(1s);
  const layout::ServerLoad idle = rig.sample({.streams = 1});
  CHECK(idle.disk.used == 0);
  CHECK(layout::available(idle.disk) > 255e6);
}

TEST_CASE("counters that go back, and CPUs that come, count as idle") {
  Rig rig;
  rig.files.stat(100, 100, 1000, 1);
  rig.files.disk(1000, 1000);
  static_cast<void>(rig.sample());
  rig.clock.advance(1s);
  rig.files.disk(0, 0);
  rig.files.texts["/proc/stat"] = "procs_running 1\ncpu0 0 0 0 0 0 0 0 0\ncpu7 9 0 0 9 0 0 0 0\n";
  const layout::ServerLoad sample = rig.sample();
  CHECK(sample.cpu_percent == std::vector<std::uint8_t>{0, 0});
  CHECK(sample.disk.used == 0);
}

TEST_CASE("nothing readable is no load, not a crash") {
  Rig rig;
  rig.files.texts.clear();
  const layout::ServerLoad sample = rig.sample();
  CHECK(sample.cpu_percent.empty());
  CHECK(sample.memory_free == 0);
  CHECK(sample.network.used == 0);
}

TEST_CASE("one process among several") {
  Rig rig({.counters = "process"});
  rig.files.texts["/proc/self/stat"] = "1 (weft-ds) S 1 1 1 1 1 1 1 1 1 1 100 100 0\n";
  rig.files.texts["/proc/self/io"] = "read_bytes: 0\nwrite_bytes: 0\n";
  static_cast<void>(rig.sample());
  rig.clock.advance(1s);
  rig.files.texts["/proc/self/stat"] = "1 (weft-ds) S 1 1 1 1 1 1 1 1 1 1 150 150 0\n";
  rig.files.texts["/proc/self/io"] = "read_bytes: 1000\nwrite_bytes: 500\n";
  for (const char* thread : {"7", "8", "9"}) {
    rig.files.texts[std::string("/proc/self/task/") + thread + "/stat"] =
        "1 (x) R 1 1 1 1 1 1 1 1 1 1 0 0 0\n";
  }
  const layout::ServerLoad sample = rig.sample({.network = {.in = 10, .out = 90}});
  CHECK(sample.cpu_percent == std::vector<std::uint8_t>{50});  // one of two CPUs
  CHECK(sample.run_queue_milli > 0);
  CHECK(sample.disk.used == 1500);
  CHECK(sample.network.used == 90);
}

TEST_CASE("a cgroup among several, and what it lacks is the machine's") {
  Rig rig({.counters = "/cg"});
  rig.files.texts["/cg/cpu.stat"] = "usage_usec 0\n";
  rig.files.texts["/cg/io.stat"] = "8:1 rbytes=0 wbytes=0\n";
  rig.files.texts["/cg/memory.max"] = "1000000\n";
  rig.files.texts["/cg/memory.current"] = "800000\n";
  rig.files.texts["/cg/memory.stat"] = "active_file 100000\ninactive_file 200000\n";
  rig.files.texts["/cg/cgroup.threads"] = "41\n42\n";
  rig.files.texts["/proc/41/stat"] = "41 (x) R 1 1 1 1 1 1 1 1 1 1 0 0 0\n";
  rig.files.net(0, 0);
  const layout::ServerLoad first = rig.sample();
  CHECK(first.run_queue_milli == 1000);
  CHECK(first.memory_free == 500'000);
  rig.clock.advance(1s);
  rig.files.texts["/cg/cpu.stat"] = "usage_usec 1500000\n";
  rig.files.texts.erase("/cg/io.stat");
  rig.files.disk(2, 2);
  rig.files.texts["/cg/memory.max"] = "max\n";
  const layout::ServerLoad second = rig.sample();
  CHECK(second.cpu_percent == std::vector<std::uint8_t>{75});
  CHECK(second.disk.used == 2048);
  CHECK(second.memory_free == 1000 * 1024);
}

TEST_CASE("no memory is free for objects that go around the page cache") {
  Rig rig({.page_cache = false});
  rig.files.net(0, 0);
  CHECK(rig.sample().memory_free == 0);
}

TEST_CASE("a cgroup's CPU time is measured against what it may use") {
  Rig rig({.counters = "/cg"});
  rig.files.texts["/cg/cpu.max"] = "10000 20000\n";  // half a processor, of two
  rig.files.texts["/cg/cpu.stat"] = "usage_usec 0\n";
  rig.files.texts["/cg/cgroup.threads"] = "40\n41\n";
  rig.files.texts["/proc/40/stat"] = "40 (asks) R 1 1 1 1 1 1 1 1 1 1 0 0 0\n";
  rig.files.texts["/proc/41/stat"] = "41 (sleeps) S 1 1 1 1 1 1 1 1 1 1 0 0 0\n";
  const layout::ServerLoad first = rig.sample();
  CHECK(first.run_queue_milli == 0);
  rig.clock.advance(1s);
  rig.files.texts["/cg/cpu.stat"] = "usage_usec 490000\n";  // a period less than all
  CHECK(rig.sample().cpu_percent == std::vector<std::uint8_t>{100});
  rig.clock.advance(1s);
  rig.files.texts["/cg/cpu.stat"] = "usage_usec 615000\n";
  CHECK(rig.sample().cpu_percent == std::vector<std::uint8_t>{27});  // 25, and a period's 2
  rig.clock.advance(1s);
  rig.files.texts["/cg/cpu.max"] = "max 100000\n";
  const layout::ServerLoad wider = rig.sample();  // the limit changed: no rate this time
  CHECK(wider.cpu_percent == std::vector<std::uint8_t>{0});
}

TEST_CASE("a sample of this machine is plausible") {
  const auto files = kernel_files();
  SystemLoad load({}, "/", *files, system_clock());
  const layout::ServerLoad first = load.sample({});
  CHECK_FALSE(first.cpu_percent.empty());
  const layout::ServerLoad second = load.sample({});
  for (const std::uint8_t cpu : second.cpu_percent) CHECK(cpu <= 100);
  CHECK(second.memory_free > 0);
  CHECK(second.disk.max > 0);
}

TEST_CASE("a disk turns when the kernel says so, of it or of the disk it is a part of") {
  FakeFiles files;
  const auto device = files.device_of("/");
  CHECK_FALSE(rotates(files, device));
  files.texts["/sys/dev/block/8:1/../queue/rotational"] = "1\n";
  CHECK(rotates(files, device));
  files.texts["/sys/dev/block/8:1/queue/rotational"] = "0\n";
  CHECK_FALSE(rotates(files, device));
  CHECK_FALSE(rotates(files, fail(Errc::kNotFound, "no such folder")));
}

}  // namespace
}  // namespace weft::ds
