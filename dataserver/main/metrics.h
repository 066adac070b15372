// What a data server tells Prometheus.
//
//   weft_build_info{program,version}                   1; and what process_metrics.h has
//   weft_ds_operations_total{op="read|write|commit"}   operations begun
//   weft_ds_operation_seconds{op="read|write|commit"}  histogram, from begun to answered
//   weft_ds_read_bytes_total, weft_ds_write_bytes_total
//   weft_ds_partner_read_bytes_total                   by data servers that make copies equal
//   weft_ds_zero_copy_bytes_total                      of those read, sent from the page cache
//   weft_ds_shared_memory_bytes_total{direction="in|out"}
//                                                      exchanged so with a metadata server
//   weft_ds_rdma_listening                             addresses, now; if RDMA is configured
//   weft_ds_rdma_bytes_total{direction="in|out"}       read from and written to clients' memory
//   weft_ds_partner_rdma_connections                   to partners, now; if RDMA is configured
//   weft_ds_partner_rdma_calls_total                   requests that went so
//   weft_ds_partner_rdma_bytes_total{direction}        written and read by partners in our memory
//   weft_ds_target_rdma_connections                    to targets, now; if one is named by RDMA
//   weft_ds_target_rdma_calls_total                    requests that went so
//   weft_ds_target_rdma_bytes_total{direction}         written and read by targets in our memory
//   weft_ds_errors_total                               operations answered with an error
//   weft_ds_handles_refused_total                      forged, foreign, fenced, lacking the right
//   weft_ds_size_queries_total, weft_ds_size_reports_total
//   weft_ds_running, weft_ds_lease_waiting             operations now; requests without a lease
//   weft_ds_run_queue{seconds="5|60"}                  threads that run or want to, on average
//   weft_ds_connections, weft_ds_sessions              now
//   weft_ds_transport_connections{transport="tcp|rdma|shared memory"}
//                                                      of clients and other servers, now
//   weft_ds_transport_calls_total{transport}           requests that came
//   weft_ds_transport_bytes_total{transport,direction="in|out"}
//                                                      of messages, bulk data included
//   weft_ds_fences, weft_ds_fence_log_bytes            in force; the log that keeps them
//   weft_ds_replays_total                              requests recognised as sent again
//   weft_ds_memory_bytes                               data in transit
//   weft_ds_store_capacity_bytes, weft_ds_store_free_bytes, weft_ds_store_objects
//   weft_ds_open_files                                 objects that are open, in a folder store
//   weft_ds_descriptor_waits_total                     objects that waited for others to be closed
//   weft_ds_mirror_pending_bytes, weft_ds_mirror_oldest_pending_seconds
//                                                      answered, not at every partner yet
//   weft_ds_mirror_window_bytes                        how much that may be
//   weft_ds_mirror_partners_away                       partners that are not written to just now
//   weft_ds_mirror_forwarded_bytes_total               written at partners
//   weft_ds_mirror_missed_writes_total                 acknowledged without a partner
//   weft_ds_target_connected{transport="shared memory|tcp|rdma|rdma and tcp"}
//                                                      connections to the target, if there is one
//   weft_ds_target_connections_total, weft_ds_target_timeouts_total
//   weft_ds_target_lent_bytes_total                    read and written in memory it shares
//   weft_ds_target_past_bytes_total                    read from the page cache, past the target
//   weft_ds_target_past_written_bytes_total            written there
//   weft_ds_parity_state{state="starting|whole|degraded|rebuilding"}
//                                                      1, if the targets are a parity group
//   weft_ds_parity_member_out                          which is not read, from 0 on; -1: all are
//   weft_ds_parity_dirty_regions                       to be gone through after a crash
//   weft_ds_parity_corrupt_blocks_total                that did not match, and were written anew
//   weft_ds_parity_objects_gone_total                  of which a target has lost files
//   weft_ds_parity_lost_blocks_total                   that could not be computed either
//   weft_ds_parity_members_put_out_total, weft_ds_parity_recoveries_total
//   weft_ds_parity_rebuilds_total                      members that are back
//   weft_ds_parity_replaced_total                      new targets that have everything
//   weft_ds_parity_rebuild_ratio                       of the objects that are to be rebuilt
//   weft_ds_parity_rebuilt_bytes, weft_ds_parity_rebuild_objects_left
//                                                      of the rebuild that goes on, or the last
//   weft_ds_parity_scrub_running, weft_ds_parity_scrub_ratio, weft_ds_parity_scrub_bytes,
//   weft_ds_parity_scrub_corrupt_blocks, weft_ds_parity_scrub_wrong_parity,
//   weft_ds_parity_scrub_lost_blocks, weft_ds_parity_scrub_failed
//                                                      of the scrub that goes on, or the last
//   weft_ds_parity_scrub_ended_timestamp_seconds, weft_ds_parity_scrubs_total
//   weft_ds_checksum_bad_blocks_total, weft_ds_checksum_checked_blocks_total,
//   weft_ds_checksum_unknown_blocks_total, weft_ds_checksum_sealed_blocks_total
//                                                      of a folder store with store.checksums
//   weft_ds_cache_*                                    cache_metrics.h, if there is a cache
//   weft_ds_prefetch_reads_total, weft_ds_prefetch_bytes_total, weft_ds_prefetch_dropped_total
//                                                      of what clients are expected to read
//   weft_ds_registered                                 1 while the metadata server knows us
//
// Threading: a pure function.
#pragma once

#include <cstdint>
#include <optional>

#include "dataserver/load/sampler.h"
#include "dataserver/main/read_ahead.h"
#include "dataserver/mirror/duplicator.h"
#include "dataserver/nfs/counters.h"
#include "dataserver/parity/parity_store.h"
#include "dataserver/sums/summed_store.h"
#include "dataserver/targets/target_link.h"
#include "rpc/base/metrics.h"
#include "rpc/session/session_server.h"

namespace weft::ds {

struct MetricsSample {
  CounterTotals operations;
  TimesOfOps times{};
  rpc::SessionServerCounts sessions;
  std::uint64_t shared_in_bytes = 0;
  std::uint64_t shared_out_bytes = 0;
  bool rdma_configured = false;
  std::uint64_t rdma_listening = 0;
  std::uint64_t rdma_in_bytes = 0;
  std::uint64_t rdma_out_bytes = 0;
  std::uint64_t partner_rdma_connections = 0;
  std::uint64_t partner_rdma_calls = 0;
  std::uint64_t partner_rdma_in_bytes = 0;
  std::uint64_t partner_rdma_out_bytes = 0;
  bool targets_by_rdma = false;  // one is named so
  std::uint64_t target_rdma_connections = 0;
  std::uint64_t target_rdma_calls = 0;
  std::uint64_t target_rdma_in_bytes = 0;
  std::uint64_t target_rdma_out_bytes = 0;
  SystemLoad::RunQueues run_queues;
  std::uint64_t lease_waiting = 0;
  std::uint64_t fences = 0;
  std::uint64_t fence_log_bytes = 0;
  std::uint64_t memory_bytes = 0;
  StoreStat store;
  std::uint64_t open_files = 0;  // of a folder store
  std::uint64_t descriptor_waits = 0;
  bool registered = false;
  std::optional<ReadAhead::Counts> read_ahead;  // none: nothing is read ahead
  MirrorCounts mirror;
  std::size_t mirror_window_bytes = 0;
};

void write_target_metrics(const TargetView& target, Metrics& out);
void write_parity_metrics(const ParityView& parity, Metrics& out);
void write_metrics(const MetricsSample& now, Metrics& out);

}  // namespace weft::ds
