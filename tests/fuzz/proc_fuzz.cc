// What the kernel writes in /proc and in cgroups. The first byte chooses the parser.
#include <cstdint>

#include "dataserver/load/proc.h"

using namespace weft::ds;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 10) {
    case 0: (void)parse_machine_stat(text); break;
    case 1: (void)parse_memory_available(text); break;
    case 2: (void)parse_net_dev(text); break;
    case 3:
      (void)parse_diskstats(text, {8, 1});
      (void)parse_disk_queue(text, {8, 1});
      (void)parse_disk_wait(text, {8, 1});
      break;
    case 4: (void)parse_process_io(text); break;
    case 5: (void)parse_thread_stat(text); break;
    case 6:
      (void)parse_cgroup_cpu(text);
      (void)parse_cgroup_cpu_max(text);
      break;
    case 7: (void)parse_cgroup_io(text, {8, 1}); break;
    case 8:
      (void)parse_cgroup_page_cache(text);
      (void)parse_cgroup_bytes(text);
      break;
    default: (void)parse_thread_list(text, 64); break;
  }
  return 0;
}
