// The kernel's own files, and what else tells of the machine: the same in each run, on any machine.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/simulation/world/disk.h"
#include "tests/simulation/world/files.h"
#include "tests/simulation/world/real.h"
#include "tests/simulation/world/scheduler.h"
#include "tests/simulation/world/thread.h"

namespace weft::sim {

namespace {

constexpr int kProcess = 4242;

struct Canned {
  std::string_view path;
  std::string_view text;
};
constexpr Canned kCanned[] = {
    {"/proc/stat",
     "cpu  2000 0 1000 97000 0 0 0 0 0 0\n"
     "cpu0 1000 0 500 48500 0 0 0 0 0 0\n"
     "cpu1 1000 0 500 48500 0 0 0 0 0 0\n"
     "procs_running 1\nprocs_blocked 0\n"},
    {"/proc/meminfo",
     "MemTotal:        8000000 kB\nMemFree:         4000000 kB\nMemAvailable:    6000000 kB\n"},
    {"/proc/self/io",
     "rchar: 0\nwchar: 0\nsyscr: 0\nsyscw: 0\nread_bytes: 0\nwrite_bytes: 0\n"
     "cancelled_write_bytes: 0\n"},
    {"/proc/self/stat",
     "4242 (simulation) S 1 4242 4242 0 -1 4194304 100 0 0 0 10 10 0 0 20 0 8 0 100 100000000 1000 "
     "18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"},
    {"/proc/self/net/dev",
     "Inter-|   Receive                                                |  Transmit\n"
     " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop "
     "fifo colls carrier compressed\n"
     "    lo:       0       0    0    0    0     0          0         0        0       0    0    0 "
     "   0     0       0          0\n"
     "  eth0:       0       0    0    0    0     0          0         0        0       0    0    0 "
     "   0     0       0          0\n"},
};

int with_text(const std::string& text) {
  const Real real;
  const int fd = ::memfd_create("canned", MFD_CLOEXEC);
  if (fd < 0) return -1;
  if (::write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) return -1;
  ::lseek(fd, 0, SEEK_SET);
  return fd;
}

std::string uuid(std::uint64_t high, std::uint64_t low) {
  char text[40];
  std::snprintf(text, sizeof text, "%08x-%04x-4%03x-8%03x-%012llx\n",
                static_cast<unsigned>(high >> 32), static_cast<unsigned>(high >> 16 & 0xffff),
                static_cast<unsigned>(high & 0xfff), static_cast<unsigned>(low >> 48 & 0xfff),
                static_cast<unsigned long long>(low & 0xffffffffffffULL));
  return text;
}

// What others do with a disk: nothing, or all that it can for some seconds.
class OtherUse {
 public:
  // Behind its numbers and name in /proc/diskstats.
  std::string counts() {
    const Ns time = now();
    if (time < since_) *this = OtherUse();  // of an earlier run
    while (until_ < time) {
      pass(until_);
      busy_ = choose(4) == 0;
      until_ += 2 * kSecond + static_cast<Ns>(choose(15 * kSecond));
    }
    pass(time);
    const auto ms = static_cast<unsigned long long>(busy_for_ / kMillisecond);
    char text[160];
    std::snprintf(text, sizeof text, " %llu 0 %llu %llu 0 0 0 0 %d %llu %llu 0 0 0 0 0 0\n", ms,
                  ms * kSectorsInMs, ms * kQueue, busy_ ? kQueue : 0, ms, ms * kQueue);
    return text;
  }

 private:
  static constexpr unsigned kSectorsInMs = 400;
  static constexpr int kQueue = 4;

  void pass(Ns until) {
    if (busy_) busy_for_ += until - since_;
    since_ = until;
  }

  Ns since_ = 0;
  Ns until_ = 0;
  Ns busy_for_ = 0;
  bool busy_ = false;
};

// A line for each of the numbers that files_stat.cc gives disks.
std::string disk_lines() {
  static std::vector<OtherUse> uses;
  uses.resize(disk::count());
  std::string text;
  for (unsigned disk = 0; disk < disk::count(); ++disk) {
    text += " 259 " + std::to_string(disk) + " disk" + std::to_string(disk) + uses[disk].counts();
  }
  return text;
}

}  // namespace

std::optional<int> open_canned(const char* path) {
  const std::string_view name = path;
  if (name == "/dev/urandom" || name == "/dev/random") {
    std::string bytes(4096, '\0');
    for (char& byte : bytes) byte = static_cast<char>(choose(256));
    return with_text(bytes);
  }
  if (name.starts_with("/proc/self/fd/")) return std::nullopt;
  if (!name.starts_with("/proc/") && !name.starts_with("/sys/")) return std::nullopt;
  for (const Canned& canned : kCanned) {
    if (name == canned.path) return with_text(std::string(canned.text));
  }
  if (name == "/proc/diskstats") return with_text(disk_lines());
  if (name == "/proc/sys/kernel/random/uuid") return with_text(uuid(choose(~0ULL), choose(~0ULL)));
  // Each simulated machine has its own, so that nobody takes two of them for one.
  if (name == "/proc/sys/kernel/random/boot_id") return with_text(uuid(0x1234567800000000, node()));
  errno = ENOENT;
  return -1;
}

}  // namespace weft::sim

using namespace weft;  // NOLINT: what follows has names of the C library

extern "C" {

pid_t getpid() { return sim::active() ? sim::kProcess : WEFT_REAL(getpid)(); }
pid_t gettid() {
  if (!sim::active()) return WEFT_REAL(gettid)();
  return sim::kProcess + static_cast<pid_t>(sim::this_thread()->id);
}
int gethostname(char* name, size_t bytes) {
  if (!sim::active()) return WEFT_REAL(gethostname)(name, bytes);
  std::snprintf(name, bytes, "node%d", static_cast<int>(sim::node()));
  return 0;
}

}  // extern "C"
