#include "dataserver/load/proc.h"

#include <catch2/catch_test_macros.hpp>
#include <cstdint>

namespace weft::ds {
namespace {

constexpr std::string_view kStat =
    "cpu  30 0 0 0 0 0 0 0 0 0\n"
    "cpu0 10 20 30 400 50 6 7 8 0 0\n"
    "cpu2 1 0 0 9 0 0 0 0 0 0\n"
    "intr 114930548 113199788 3 0 5\n"
    "procs_running 3\n"
    "procs_blocked 0\n";

TEST_CASE("CPU times count everything but idle and iowait as busy, each CPU apart") {
  const auto stat = parse_machine_stat(kStat);
  REQUIRE(stat);
  CHECK(stat->runnable == 3);
  CHECK(stat->cpus == std::vector<CpuTimes>{{0, 81, 531}, {2, 1, 10}});
}

TEST_CASE("a /proc/stat that is not one is refused") {
  CHECK(parse_machine_stat("").error() == Errc::kNotFound);
  CHECK(parse_machine_stat("procs_running 1\n").error() == Errc::kNotFound);
  CHECK(parse_machine_stat("procs_running x\ncpu0 1 2 3 4 5 6 7 8\n").error() == Errc::kInvalid);
  CHECK(parse_machine_stat("procs_running 1\ncpu0 1 2 3\n").error() == Errc::kInvalid);
  CHECK(parse_machine_stat("procs_running 1\ncpux 1 2 3 4 5 6 7 8\n").error() == Errc::kInvalid);
  CHECK(parse_machine_stat("procs_running 1\ncpu0 -1 2 3 4 5 6 7 8\n").error() == Errc::kInvalid);
}

TEST_CASE("memory that could be had") {
  CHECK(parse_memory_available("MemTotal: 5 kB\nMemAvailable:    2048 kB\n") == 2048U * 1024);
  CHECK(parse_memory_available("MemTotal: 5 kB\n").error() == Errc::kNotFound);
  CHECK(parse_memory_available("MemAvailable: much\n").error() == Errc::kInvalid);
  CHECK(parse_memory_available("MemAvailable: 18446744073709551615 kB\n").error() ==
        Errc::kInvalid);
}

TEST_CASE("interfaces are listed without the loopback") {
  const auto interfaces = parse_net_dev(
      "Inter-|   Receive                            |  Transmit\n"
      " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets\n"
      "    lo: 999 9 0 0 0 0 0 0 999 9 0 0 0 0 0 0\n"
      "  eth0: 100 1 0 0 0 0 0 0 200 2 0 0 0 0 0 0\n"
      "  eth1:1 1 0 0 0 0 0 0 2 2 0 0 0 0 0 0\n");
  CHECK(interfaces == std::vector<Interface>{{"eth0", {100, 200}}, {"eth1", {1, 2}}});
  CHECK(parse_net_dev("a\nb\neth0 1 2 3\n").error() == Errc::kInvalid);
  CHECK(parse_net_dev("a\nb\neth0: 1 2 3\n").error() == Errc::kInvalid);
}

TEST_CASE("a device's bytes, whole or partition") {
  constexpr std::string_view kDisks =
      "   8       0 sda 100 0 2000 5 50 0 400 9 0 3 14\n"
      "   8       1 sda1 10 0 20 5 5 0 40 9 0 3 14\n";
  CHECK(parse_diskstats(kDisks, {8, 0}) == ByteTotals{2000 * 512, 400 * 512});
  CHECK(parse_diskstats(kDisks, {8, 1}) == ByteTotals{20 * 512, 40 * 512});
  CHECK(parse_diskstats(kDisks, {9, 1}).error() == Errc::kNotFound);
  CHECK(parse_diskstats("8 0 sda 100 0\n", {8, 0}).error() == Errc::kInvalid);
  CHECK(parse_diskstats("disks\n", {8, 0}).error() == Errc::kInvalid);
  CHECK(parse_disk_queue("   8       0 sda 100 0 2000 5 50 0 400 9 7 3 14\n", {8, 0}) == 7U);
  CHECK(parse_disk_queue(kDisks, {8, 1}) == 0U);
  CHECK(parse_disk_wait("   8       0 sda 100 0 2000 5 50 0 400 9 7 3 14\n", {8, 0}) == 14U);
  CHECK(parse_disk_wait("8 0 sda 100 0 2000 5 50 0 400 9 7 3\n", {8, 0}).error() == Errc::kInvalid);
  CHECK(parse_disk_queue(kDisks, {9, 1}).error() == Errc::kNotFound);
  CHECK(parse_disk_queue("8 0 sda 100 0 2000 5 50 0 400 9\n", {8, 0}).error() == Errc::kInvalid);
}

TEST_CASE("what a process or thread does") {
  CHECK(parse_process_io("rchar: 9\nread_bytes: 4096\nwrite_bytes: 8192\n") ==
        ByteTotals{4096, 8192});
  CHECK_FALSE(parse_process_io("read_bytes: 4096\n"));
  const auto thread =
      parse_thread_stat("12 (a) R (b) R 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 1 0 5\n");
  REQUIRE(thread);
  CHECK(thread->runnable);
  CHECK(thread->ticks == 300);
  CHECK_FALSE(parse_thread_stat("12 (x) S 1 2 3 4 5 6 7 8 9 10 1 2 0")->runnable);
  CHECK(parse_thread_stat("12 x S 1").error() == Errc::kInvalid);
  CHECK(parse_thread_stat("12 (x) S 1 2 3").error() == Errc::kInvalid);
  CHECK(parse_thread_stat("12 (x").error() == Errc::kInvalid);
}

TEST_CASE("what a cgroup does") {
  CHECK(parse_cgroup_cpu("usage_usec 12345\nuser_usec 1\n") == 12345U);
  CHECK(parse_cgroup_cpu_max("40000 100000\n") == CpuLimit{40000, 100000});
  CHECK(parse_cgroup_cpu_max("max 100000\n").error() == Errc::kNotFound);
  for (const char* wrong : {"", "max", "40000", "0 100000", "1 0", "x 1", "1 2\n3 4\n"}) {
    CHECK(parse_cgroup_cpu_max(wrong).error() == Errc::kInvalid);
  }
  CHECK(parse_cgroup_cpu("user_usec 1\n").error() == Errc::kNotFound);
  constexpr std::string_view kIo =
      "8:16 rbytes=1 wbytes=2 rios=1 wios=1 dbytes=0 dios=0\n"
      "8:1 rbytes=3 wbytes=4 rios=1 wios=1 dbytes=0 dios=0\n";
  CHECK(parse_cgroup_io(kIo, {8, 1}) == ByteTotals{3, 4});
  CHECK(parse_cgroup_io(kIo, {8, 6}) == ByteTotals{});
  CHECK(parse_cgroup_io("8:1 rbytes=x wbytes=1\n", {8, 1}).error() == Errc::kInvalid);
  CHECK(parse_cgroup_io("8:1 rbytes=1\n", {8, 1}).error() == Errc::kInvalid);
  CHECK(parse_cgroup_bytes("max\n") == UINT64_MAX);
  CHECK(parse_cgroup_bytes("4096\n") == 4096U);
  CHECK(parse_cgroup_bytes("4096 kB?\nmore\n").error() == Errc::kInvalid);
  CHECK(parse_cgroup_bytes("").error() == Errc::kInvalid);
  CHECK(parse_cgroup_page_cache("anon 5\nactive_file 10\ninactive_file 20\n") == 30U);
  CHECK(parse_thread_list("12\n13\n", 100) == std::vector<std::uint32_t>{12, 13});
  CHECK(parse_thread_list("12\n13\n", 1)->size() == 1);
  CHECK(parse_thread_list("12\nx\n", 100).error() == Errc::kInvalid);
}

}  // namespace
}  // namespace weft::ds
