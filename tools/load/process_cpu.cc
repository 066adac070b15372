#include "tools/load/process_cpu.h"

#include <unistd.h>

#include <array>
#include <fstream>
#include <sstream>
#include <string>

namespace weft::load {
namespace {

double ticks_per_second() { return static_cast<double>(::sysconf(_SC_CLK_TCK)); }

Result<double> cpu_seconds_of(pid_t process) {
  const std::string path = "/proc/" + std::to_string(process) + "/stat";
  std::ifstream file(path);
  std::string text;
  if (!std::getline(file, text)) return fail(Errc::kNotFound, path + ": no such process");
  const std::size_t after_name = text.rfind(')');  // the name may hold spaces and parentheses
  if (after_name == std::string::npos) return fail(Errc::kCorrupt, path);
  std::istringstream fields(text.substr(after_name + 1));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;  // state .. cmajflt
  double user = 0;
  double system = 0;
  if (!(fields >> user >> system)) return fail(Errc::kCorrupt, path);
  return (user + system) / ticks_per_second();
}

}  // namespace

Result<double> cpu_seconds(std::span<const pid_t> processes) {
  double sum = 0;
  for (const pid_t process : processes) {
    auto one = cpu_seconds_of(process);
    if (!one) return pass(one);
    sum += *one;
  }
  return sum;
}

IdleTotals idle_totals() {
  std::ifstream file("/proc/stat");
  std::string label;
  std::array<double, 8> fields{};  // user nice system idle iowait irq softirq steal
  file >> label;
  IdleTotals out;
  for (double& field : fields) {
    file >> field;
    out.all_s += field / ticks_per_second();
  }
  out.idle_s = (fields[3] + fields[4]) / ticks_per_second();
  return out;
}

}  // namespace weft::load
