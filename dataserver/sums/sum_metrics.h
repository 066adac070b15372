// What checksums count (sum_view.h), for Prometheus, of a program whose names begin with `prefix`:
//
//   <prefix>_checksum_bad_blocks_total       reads and writes that met a block that does not fit
//   <prefix>_checksum_checked_blocks_total   of reads
//   <prefix>_checksum_unknown_blocks_total   of reads, read as they are
//   <prefix>_checksum_sealed_blocks_total    checksums made of what was written
//
// Threading: a pure function.
#pragma once

#include <string>

#include "dataserver/sums/sum_view.h"
#include "rpc/base/metrics.h"

namespace weft::ds {

inline void write_checksum_metrics(const SumCounts& counts, const std::string& prefix,
                                   Metrics& out) {
  const auto counter = [&](const char* name, const char* help, std::uint64_t value) {
    out.counter((prefix + name).c_str(), help, value);
  };
  counter("_checksum_bad_blocks_total",
          "Reads and writes that met a block that is not what its checksum is of",
          counts.bad_blocks);
  counter("_checksum_checked_blocks_total", "Blocks read that were checked", counts.checked_blocks);
  counter("_checksum_unknown_blocks_total",
          "Blocks read whose checksum is not known, or not known yet", counts.unknown_blocks);
  counter("_checksum_sealed_blocks_total", "Checksums made of what was written",
          counts.sealed_blocks);
}

}  // namespace weft::ds
