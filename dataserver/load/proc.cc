#include "dataserver/load/proc.h"

#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <string>

namespace weft::ds {

namespace {

constexpr std::uint64_t kSectorBytes = 512;  // of /proc/diskstats, whatever the device's are

bool is_blank(char c) { return c == ' ' || c == '\t'; }

// Takes the next line off `text`; the line break goes with it.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

// Takes the next word off `line`; empty when there is none.
std::string_view take_word(std::string_view& line) {
  while (!line.empty() && is_blank(line.front())) line.remove_prefix(1);
  std::size_t end = 0;
  while (end < line.size() && !is_blank(line[end])) ++end;
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(end);
  return word;
}

// All of `word` as a decimal number.
template <class T>
std::optional<T> number(std::string_view word) {
  T value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  return value;
}

template <std::size_t N>
bool take_numbers(std::string_view& line, std::array<std::uint64_t, N>& into) {
  for (std::uint64_t& value : into) {
    const auto next = number<std::uint64_t>(take_word(line));
    if (!next) return false;
    value = *next;
  }
  return true;
}

std::unexpected<Error> malformed(std::string_view what) {
  return fail(Errc::kInvalid, std::string(what) + " is malformed");
}

std::unexpected<Error> absent(std::string_view what) {
  return fail(Errc::kNotFound, std::string(what) + " is not there");
}

// The number after `key` at the beginning of some line: "key 12" or "key: 12 kB".
Result<std::uint64_t> keyed_number(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    std::string_view line = take_line(text);
    if (take_word(line) != key) continue;
    const auto value = number<std::uint64_t>(take_word(line));
    if (!value) return malformed(key);
    return *value;
  }
  return absent(key);
}

// The first numbers of a device's line in /proc/diskstats.
template <std::size_t kNumbers>
Result<std::array<std::uint64_t, kNumbers>> disk_counts(std::string_view text,
                                                        DeviceNumber device) {
  while (!text.empty()) {
    std::string_view line = take_line(text);
    std::array<std::uint64_t, 2> id{};
    if (!take_numbers(line, id)) return malformed("a line of /proc/diskstats");
    if (id[0] != device.major || id[1] != device.minor) continue;
    static_cast<void>(take_word(line));  // its name
    std::array<std::uint64_t, kNumbers> counts{};
    if (!take_numbers(line, counts)) return malformed("a line of /proc/diskstats");
    return counts;
  }
  return absent("the device in /proc/diskstats");
}

}  // namespace

Result<MachineStat> parse_machine_stat(std::string_view text) {
  MachineStat stat;
  auto runnable = keyed_number(text, "procs_running");
  if (!runnable) return pass(runnable);
  stat.runnable = *runnable;
  while (!text.empty()) {
    std::string_view line = take_line(text);
    const std::string_view name = take_word(line);
    if (!name.starts_with("cpu") || name == "cpu") continue;
    const auto cpu = number<std::uint32_t>(name.substr(3));
    std::array<std::uint64_t, 8> ticks{};  // user nice system idle iowait irq softirq steal
    if (!cpu || !take_numbers(line, ticks)) return malformed("a line of /proc/stat");
    CpuTimes times{.cpu = *cpu};
    for (const std::uint64_t part : ticks) times.total += part;
    times.busy = times.total - ticks[3] - ticks[4];
    if (stat.cpus.size() < kMaxCpus) stat.cpus.push_back(times);
  }
  if (stat.cpus.empty()) return absent("any CPU");
  return stat;
}

Result<std::uint64_t> parse_memory_available(std::string_view text) {
  auto kib = keyed_number(text, "MemAvailable:");
  if (!kib) return kib;
  if (*kib > std::numeric_limits<std::uint64_t>::max() / 1024) return malformed("MemAvailable");
  return *kib * 1024;
}

Result<std::vector<Interface>> parse_net_dev(std::string_view text) {
  static_cast<void>(take_line(text));  // two lines of headings
  static_cast<void>(take_line(text));
  std::vector<Interface> interfaces;
  while (!text.empty()) {
    std::string_view line = take_line(text);
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return malformed("a line of /proc/net/dev");
    std::string_view before = line.substr(0, colon);
    const std::string_view name = take_word(before);
    line.remove_prefix(colon + 1);
    std::array<std::uint64_t, 9> counts{};  // eight of what was received, then bytes sent
    if (!take_numbers(line, counts)) return malformed("a line of /proc/net/dev");
    if (name == "lo") continue;
    interfaces.push_back({std::string(name), {counts[0], counts[8]}});
  }
  return interfaces;
}

Result<ByteTotals> parse_diskstats(std::string_view text, DeviceNumber device) {
  // reads, merged, sectors, ms, writes, merged, sectors
  auto counts = disk_counts<7>(text, device);
  if (!counts) return pass(counts);
  return ByteTotals{(*counts)[2] * kSectorBytes, (*counts)[6] * kSectorBytes};
}

Result<std::uint64_t> parse_disk_queue(std::string_view text, DeviceNumber device) {
  // those, ms, under way
  auto counts = disk_counts<9>(text, device);
  if (!counts) return pass(counts);
  return (*counts)[8];
}

Result<std::uint64_t> parse_disk_wait(std::string_view text, DeviceNumber device) {
  // those, ms in which it was not idle, ms of all operations
  auto counts = disk_counts<11>(text, device);
  if (!counts) return pass(counts);
  return (*counts)[10];
}

Result<ByteTotals> parse_process_io(std::string_view text) {
  auto in = keyed_number(text, "read_bytes:");
  if (!in) return pass(in);
  auto out = keyed_number(text, "write_bytes:");
  if (!out) return pass(out);
  return ByteTotals{*in, *out};
}

Result<ThreadStat> parse_thread_stat(std::string_view text) {
  // The name in parentheses may hold anything, parentheses and blanks too.
  const std::size_t end = text.rfind(')');
  if (end == std::string_view::npos) return malformed("a thread's stat");
  std::string_view line = text.substr(end + 1);
  ThreadStat stat;
  const std::string_view state = take_word(line);
  if (state.size() != 1) return malformed("a thread's stat");
  stat.runnable = state == "R";
  for (int i = 0; i < 10; ++i) static_cast<void>(take_word(line));  // ppid to cmajflt
  std::array<std::uint64_t, 2> ticks{};
  if (!take_numbers(line, ticks)) return malformed("a thread's stat");
  stat.ticks = ticks[0] + ticks[1];
  return stat;
}

Result<std::uint64_t> parse_cgroup_cpu(std::string_view text) {
  return keyed_number(text, "usage_usec");
}

Result<CpuLimit> parse_cgroup_cpu_max(std::string_view text) {
  std::string_view line = take_line(text);
  const std::string_view quota = take_word(line);
  const auto period = number<std::uint64_t>(take_word(line));
  if (!period || *period == 0 || !text.empty()) return malformed("cpu.max");
  if (quota == "max") return absent("a limit in cpu.max");
  const auto us = number<std::uint64_t>(quota);
  if (!us || *us == 0) return malformed("cpu.max");
  return CpuLimit{*us, *period};
}

Result<ByteTotals> parse_cgroup_io(std::string_view text, DeviceNumber device) {
  const std::string wanted = std::to_string(device.major) + ":" + std::to_string(device.minor);
  while (!text.empty()) {
    std::string_view line = take_line(text);
    if (take_word(line) != wanted) continue;
    std::optional<std::uint64_t> in;
    std::optional<std::uint64_t> out;
    for (std::string_view word = take_word(line); !word.empty(); word = take_word(line)) {
      if (word.starts_with("rbytes=")) in = number<std::uint64_t>(word.substr(7));
      if (word.starts_with("wbytes=")) out = number<std::uint64_t>(word.substr(7));
    }
    if (!in || !out) return malformed("a line of io.stat");
    return ByteTotals{*in, *out};
  }
  return ByteTotals{};
}

Result<std::uint64_t> parse_cgroup_bytes(std::string_view text) {
  std::string_view line = take_line(text);
  const std::string_view word = take_word(line);
  if (word == "max") return std::numeric_limits<std::uint64_t>::max();
  const auto value = number<std::uint64_t>(word);
  if (!value || !text.empty()) return malformed("a cgroup's number");
  return *value;
}

Result<std::uint64_t> parse_cgroup_page_cache(std::string_view text) {
  auto active = keyed_number(text, "active_file");
  if (!active) return active;
  auto inactive = keyed_number(text, "inactive_file");
  if (!inactive) return inactive;
  if (*active > std::numeric_limits<std::uint64_t>::max() - *inactive) {
    return malformed("memory.stat");
  }
  return *active + *inactive;
}

Result<std::vector<std::uint32_t>> parse_thread_list(std::string_view text, std::size_t limit) {
  std::vector<std::uint32_t> list;
  while (!text.empty() && list.size() < limit) {
    const auto id = number<std::uint32_t>(take_line(text));
    if (!id) return malformed("cgroup.threads");
    list.push_back(*id);
  }
  return list;
}

}  // namespace weft::ds
