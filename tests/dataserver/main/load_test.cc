#include "dataserver/main/load.h"

#include <catch2/catch_test_macros.hpp>

namespace weft::ds {
namespace {

TEST_CASE("CPU times count everything but idle and iowait as busy") {
  const CpuTimes times = parse_cpu_times("cpu  10 20 30 400 50 6 7 8 0 0\ncpu0 1 2 3\n");
  CHECK(times.total == 531);
  CHECK(times.busy == 81);
  CHECK(parse_cpu_times("cpu 1 2").total == 0);
  CHECK(parse_cpu_times("").total == 0);
}

TEST_CASE("load average and memory") {
  CHECK(parse_load_average("1.25 0.5 0.1 1/100 5\n") == 1250);
  CHECK(parse_load_average("nonsense") == 0);
  CHECK(parse_memory_available("MemTotal: 5 kB\nMemAvailable:    2048 kB\n") == 2048 * 1024);
  CHECK(parse_memory_available("MemTotal: 5 kB\n") == 0);
}

TEST_CASE("a sample of this machine is plausible") {
  LoadSampler sampler;
  CHECK(sampler.sample().cpu_busy_permille == 0);
  const MachineLoad load = sampler.sample();
  CHECK(load.cpu_busy_permille <= 1000);
  CHECK(load.memory_free_bytes > 0);
}

}  // namespace
}  // namespace weft::ds
