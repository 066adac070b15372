#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "rpc/base/metrics.h"

namespace weft {
namespace {

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  double all = 0;
  double resident = 0;
  file >> all >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

// Without the one that this takes itself.
std::size_t open_files() {
  struct Close {
    void operator()(DIR* folder) const { ::closedir(folder); }
  };
  const std::unique_ptr<DIR, Close> folder(::opendir("/proc/self/fd"));
  std::size_t count = 0;
  while (folder != nullptr) {
    const dirent* const entry = ::readdir(folder.get());
    if (entry == nullptr) break;
    if (entry->d_name[0] != '.') ++count;
  }
  return count == 0 ? 0 : count - 1;
}

double most_files() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<double>(limit.rlim_cur);
}

// When the process started, in ticks since the machine did.
double start_ticks() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');  // the name may hold spaces and parentheses
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  for (int i = 0; i < 19; ++i) fields >> skipped;  // state .. itrealvalue
  double ticks = 0;
  fields >> ticks;
  return ticks;
}

// When the machine started, in seconds since 1970.
double machine_start() {
  std::ifstream file("/proc/stat");
  for (std::string word; file >> word;) {
    double time = 0;
    if (word == "btime" && file >> time) return time;
  }
  return 0;
}

double start_time() {
  return machine_start() + start_ticks() / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace

void Metrics::program(std::string_view program, std::string_view version) {
  gauge("weft_build_info", "1, for this program and its version", 1,
        {{"program", program}, {"version", version}});
  counter("process_cpu_seconds_total", "Processor time, of the program and the system for it",
          cpu_seconds());
  gauge("process_resident_memory_bytes", "Memory it has now", resident_bytes());
  gauge("process_open_fds", "File descriptors it has open", open_files());
  gauge("process_max_fds", "File descriptors it may have open", most_files());
  gauge("process_start_time_seconds", "When it started, since 1970", start_time());
}

}  // namespace weft
