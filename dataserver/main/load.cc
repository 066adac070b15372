#include "dataserver/main/load.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <iterator>
#include <string>

namespace weft::ds {

namespace {

constexpr std::size_t kMaxProcBytes = 16384;

std::string read_proc(const char* path) {
  std::ifstream file(path);
  std::string text(kMaxProcBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

// The number at the front of `text`, after spaces, which it takes off.
bool take_number(std::string_view& text, std::uint64_t& value) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

}  // namespace

CpuTimes parse_cpu_times(std::string_view stat) {
  if (!stat.starts_with("cpu ")) return {};
  stat.remove_prefix(4);
  std::array<std::uint64_t, 8> fields{};  // user nice system idle iowait irq softirq steal
  for (std::uint64_t& field : fields) {
    if (!take_number(stat, field)) return {};
  }
  CpuTimes times;
  for (const std::uint64_t field : fields) times.total += field;
  times.busy = times.total - fields[3] - fields[4];
  return times;
}

std::uint32_t parse_load_average(std::string_view loadavg) {
  double average = 0;
  const auto [end, error] =
      std::from_chars(loadavg.data(), loadavg.data() + loadavg.size(), average);
  if (error != std::errc{} || !(average >= 0) || average > 1e6) return 0;
  return static_cast<std::uint32_t>(average * 1000);
}

std::uint64_t parse_memory_available(std::string_view meminfo) {
  constexpr std::string_view kKey = "MemAvailable:";
  const std::size_t at = meminfo.find(kKey);
  if (at == std::string_view::npos) return 0;
  meminfo.remove_prefix(at + kKey.size());
  std::uint64_t kib = 0;
  return take_number(meminfo, kib) ? kib * 1024 : 0;
}

MachineLoad LoadSampler::sample() {
  const CpuTimes now = parse_cpu_times(read_proc("/proc/stat"));
  MachineLoad load;
  if (last_.total != 0 && now.total > last_.total && now.busy >= last_.busy) {
    load.cpu_busy_permille = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(1000, (now.busy - last_.busy) * 1000 / (now.total - last_.total)));
  }
  last_ = now;
  load.run_queue_milli = parse_load_average(read_proc("/proc/loadavg"));
  load.memory_free_bytes = parse_memory_available(read_proc("/proc/meminfo"));
  return load;
}

}  // namespace weft::ds
