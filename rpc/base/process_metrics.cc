#include "rpc/base/process_metrics.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>

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

std::optional<double> resident_bytes() {
  std::ifstream file("/proc/self/statm");
  double all = 0;
  double resident = 0;
  if (!(file >> all >> resident)) return std::nullopt;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

// Without the one that this takes itself.
std::optional<double> open_files() {
  struct Close {
    void operator()(DIR* folder) const { ::closedir(folder); }
  };
  const std::unique_ptr<DIR, Close> folder(::opendir("/proc/self/fd"));
  if (folder == nullptr) return std::nullopt;
  double count = -1;
  while (const dirent* const entry = ::readdir(folder.get())) {
    if (entry->d_name[0] != '.') ++count;
  }
  return count;
}

double most_files() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<double>(limit.rlim_cur);
}

// When the process started, in ticks since the machine did.
std::optional<double> start_ticks() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');  // the name may hold spaces and parentheses
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  for (int i = 0; i < 19; ++i) fields >> skipped;  // state .. itrealvalue
  double ticks = 0;
  if (!(fields >> ticks)) return std::nullopt;
  return ticks;
}

// When the machine started, in seconds since 1970.
std::optional<double> machine_start() {
  std::ifstream file("/proc/stat");
  for (std::string word; file >> word;) {
    double time = 0;
    if (word == "btime" && file >> time) return time;
  }
  return std::nullopt;
}

std::optional<double> start_time() {
  const auto ticks = start_ticks();
  const auto machine = machine_start();
  if (!ticks || !machine) return std::nullopt;
  return *machine + *ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace

void write_program_metrics(std::string_view program, std::string_view version, Metrics& out) {
  out.gauge("weft_build_info", "1, for this program and its version", 1,
            {{"program", program}, {"version", version}});
  out.counter("process_cpu_seconds_total", "Processor time, of the program and the system for it",
              cpu_seconds());
  out.gauge("process_max_fds", "File descriptors it may have open", most_files());
  if (const auto bytes = resident_bytes()) {
    out.gauge("process_resident_memory_bytes", "Memory it has now", *bytes);
  }
  if (const auto count = open_files()) {
    out.gauge("process_open_fds", "File descriptors it has open", *count);
  }
  if (const auto time = start_time()) {
    out.gauge("process_start_time_seconds", "When it started, since 1970", *time);
  }
}

}  // namespace weft
