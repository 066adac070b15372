// What a data server tells Prometheus.
//
//   weft_ds_operations_total{op="read|write|commit"}   operations begun
//   weft_ds_read_bytes_total, weft_ds_write_bytes_total
//   weft_ds_zero_copy_bytes_total                      of those read, sent from the page cache
//   weft_ds_errors_total                               operations answered with an error
//   weft_ds_handles_refused_total                      forged, foreign, fenced, lacking the right
//   weft_ds_size_queries_total, weft_ds_size_reports_total
//   weft_ds_running, weft_ds_lease_waiting             operations now; requests without a lease
//   weft_ds_connections, weft_ds_sessions              now
//   weft_ds_replays_total                              requests recognised as sent again
//   weft_ds_memory_bytes                               data in transit
//   weft_ds_store_capacity_bytes, weft_ds_store_free_bytes, weft_ds_store_objects
//   weft_ds_mirror_pending_bytes, weft_ds_mirror_oldest_pending_ms
//                                                      answered, not at every partner yet
//   weft_ds_mirror_partners_away                       partners that are not written to just now
//   weft_ds_mirror_forwarded_bytes_total               written at partners
//   weft_ds_mirror_missed_writes_total                 acknowledged without a partner
//   weft_ds_target_connected{transport="shared memory|tcp"}
//                                                      connections to the target, if there is one
//   weft_ds_target_connections_total, weft_ds_target_timeouts_total
//   weft_ds_target_lent_bytes_total                    read and written in memory it shares
//   weft_ds_registered                                 1 while the metadata server knows us
//
// Threading: a pure function.
#pragma once

#include <cstdint>

#include "dataserver/mirror/duplicator.h"
#include "dataserver/target/target_link.h"
#include "rpc/base/metrics.h"

namespace weft::ds {

struct MetricsSample {
  std::uint64_t reads = 0;
  std::uint64_t writes = 0;
  std::uint64_t commits = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t write_bytes = 0;
  std::uint64_t zero_copy_bytes = 0;
  std::uint64_t errors = 0;
  std::uint64_t refused = 0;
  std::uint64_t size_queries = 0;
  std::uint64_t size_reports = 0;
  std::uint64_t running = 0;
  std::uint64_t lease_waiting = 0;
  std::uint64_t connections = 0;
  std::uint64_t sessions = 0;
  std::uint64_t replays = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t capacity_bytes = 0;
  std::uint64_t free_bytes = 0;
  std::uint64_t objects = 0;
  bool registered = false;
  MirrorCounts mirror;
};

void write_target_metrics(const TargetView& target, Metrics& out);
void write_metrics(const MetricsSample& now, Metrics& out);

}  // namespace weft::ds
