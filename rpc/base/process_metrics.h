// What every program tells Prometheus of itself: which it is, of which version, and what its
// process uses, in the names that Prometheus' own libraries have for that.
//
//   weft_build_info{program,version}    1
//   process_cpu_seconds_total, process_resident_memory_bytes, process_open_fds, process_max_fds,
//   process_start_time_seconds
//
// What cannot be read, as when no file descriptor is left to read it by, is left out.
//
// Threading: any thread; reads a few files of /proc.
#pragma once

#include <string_view>

#include "rpc/base/metrics.h"

namespace weft {

void write_program_metrics(std::string_view program, std::string_view version, Metrics& out);

}  // namespace weft
