// What programs learn of the machine: the kernel's files, numbers, randomness, and the system calls
// that have no function.
#include <fcntl.h>
#include <linux/openat2.h>
#include <openssl/rand.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <fstream>
#include <random>
#include <string>
#include <thread>

#include "dataserver/load/sampler.h"
#include "tests/simulation/world/disk.h"
#include "tests/simulation/world/disk_folder.h"
#include "tests/simulation/world/fork.h"

namespace weft::sim {
namespace {

std::string read_file(const char* path) {
  std::ifstream file(path);
  return file ? std::string(std::istreambuf_iterator<char>(file), {}) : "(none)";
}

TEST_CASE("the kernel's files say the same on any machine, and no others are there") {
  const Outcome outcome = in_simulation(1, [] {
    SIM_CHECK(read_file("/proc/meminfo").contains("MemAvailable:    6000000 kB"));
    SIM_CHECK(read_file("/proc/version") == "(none)");
    SIM_CHECK(::open("/sys/block", O_RDONLY | O_CLOEXEC) == -1 && errno == ENOENT);
    enter_node(1);
    const std::string one = read_file("/proc/sys/kernel/random/boot_id");
    SIM_CHECK(one.size() == 37 && one == read_file("/proc/sys/kernel/random/boot_id"));
    enter_node(2);
    SIM_CHECK(one != read_file("/proc/sys/kernel/random/boot_id"));
    char name[64];
    SIM_CHECK(::gethostname(name, sizeof name) == 0 && std::string(name) == "node2");
  });
  CHECK(outcome.status == 0);
}

TEST_CASE("a data server can take its load from them") {
  const DiskFolder folder;
  const Outcome outcome = in_simulation(1, [&] {
    const unsigned disk = disk::make(folder.disk(), 1 << 20);
    const auto files = ds::kernel_files();
    const auto device = files->device_of(disk::path(disk));
    SIM_CHECK(device.has_value());
    SIM_CHECK(ds::parse_machine_stat(files->read("/proc/stat").value()).has_value());
    SIM_CHECK(ds::parse_memory_available(files->read("/proc/meminfo").value()).has_value());
    SIM_CHECK(ds::parse_net_dev(files->read("/proc/self/net/dev").value()).has_value());
    SIM_CHECK(ds::parse_process_io(files->read("/proc/self/io").value()).has_value());
    SIM_CHECK(ds::parse_thread_stat(files->read("/proc/self/stat").value()).has_value());
    SIM_CHECK(ds::parse_diskstats(files->read("/proc/diskstats").value(), *device).has_value());
    SIM_CHECK(files->list("/proc/self/task/").empty());
  });
  CHECK(outcome.status == 0);
}

// Whatever randomness there is, into the fingerprint.
void draw_all() {
  std::uint64_t number = 0;
  SIM_CHECK(::getrandom(&number, sizeof number, 0) == sizeof number);
  note(number);
  unsigned char bytes[8];
  SIM_CHECK(RAND_bytes(bytes, sizeof bytes) == 1);
  for (const unsigned char byte : bytes) note(byte);
  note(std::random_device()());
  note(std::hash<std::string>()(read_file("/proc/sys/kernel/random/uuid")));
  const int fd = ::open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  SIM_CHECK(::read(fd, &number, sizeof number) == sizeof number);
  note(number);
  ::close(fd);
  note(static_cast<std::uint64_t>(::getpid()));
  note(static_cast<std::uint64_t>(::gettid()));
}

TEST_CASE("randomness comes from the seed") {
  const Outcome first = in_simulation(1, draw_all);
  CHECK(first.status == 0);
  CHECK(first == in_simulation(1, draw_all));
  CHECK(first.fingerprint != in_simulation(2, draw_all).fingerprint);
}

TEST_CASE("atomics wait in simulated time") {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const Outcome outcome = in_simulation(seed, [] {
      std::atomic<int> value{0};
      std::thread other([&] {
        std::this_thread::sleep_for(std::chrono::minutes(30));
        value = 1;
        value.notify_all();
        while (value != 2) value.wait(1);
      });
      value.wait(0);
      SIM_CHECK(now() >= 1'800 * kSecond);
      value = 2;
      value.notify_one();
      other.join();
    });
    CHECK(outcome.status == 0);
  }
}

TEST_CASE("what is opened only if it is in memory mostly is") {
  const DiskFolder folder;
  const Outcome outcome = in_simulation(1, [&] {
    const unsigned disk = disk::make(folder.disk(), 1 << 20);
    const std::string path = disk::path(disk) + "/f";
    ::close(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    int opened = 0;
    for (int i = 0; i < 1'000; ++i) {
      open_how how{};
      how.flags = O_RDWR | O_CLOEXEC;
      how.resolve = RESOLVE_CACHED;
      const auto fd =
          static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof how));
      SIM_CHECK(fd >= 0 || errno == EAGAIN);
      if (fd < 0) continue;
      ++opened;
      ::close(fd);
    }
    SIM_CHECK(opened > 800 && opened < 1'000);
  });
  CHECK(outcome.status == 0);
}

}  // namespace
}  // namespace weft::sim
