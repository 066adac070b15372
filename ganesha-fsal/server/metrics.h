// What the metadata server tells Prometheus: the reports of `weft status` and `weft ds list`.
//
//   weft_build_info{program,version}                   1; and what process_metrics.h has
//   weft_mds_uptime_seconds                            since the process started
//   weft_mds_operations_total{op="read|write"}         served by itself: clients without pNFS
//   weft_mds_operation_seconds{op}                     histograms: operations (operation_times.h),
//   weft_mds_reply_wait_seconds                        and the sync that replies wait for
//   weft_mds_read_bytes_total, weft_mds_write_bytes_total
//   weft_mds_layouts_granted_total, _refused_total, _returned_total, _committed_total
//   weft_mds_layouts                                   held by clients now
//   weft_mds_recalls_total, weft_mds_recalls_pending, weft_mds_oldest_recall_seconds
//   weft_mds_fences_total, weft_mds_fence_failures_total
//   weft_mds_layout_errors_total                       reported by clients
//   weft_mds_clients, weft_mds_grace_left_seconds, weft_mds_removals_queued
//   weft_mds_store_failed, weft_mds_store_full, weft_mds_store_writes_stopped (0 or 1)
//   weft_mds_store_background_errors_total
//   weft_mds_store_memory_bytes, _table_bytes, _compaction_bytes, _free_bytes, _floor_bytes
//   weft_mds_scrub_*, weft_mds_repair_*                of the last scrub; since the start
//   weft_mds_stray_objects, weft_mds_foreign_objects   of the last audit
//   weft_mds_restored_unchecked_files, ..._damaged_files   of a store that came back from a backup
//   weft_mds_refused_servers, weft_mds_warnings        as in weft status
//   weft_mds_data_servers{state="up|suspect|down|unknown"}
//   weft_mds_data_server_*{id,name,domain}             of each:
//     _up, _store_away, _not_accepted, _repair_waits, _shared_memory, _rdma    1 or 0
//     _capacity_bytes, _free_bytes, _read_bytes_total, _write_bytes_total, as they reported
//     _shared_memory_bytes_total, _stale_objects, _repairs, _objects_left, _objects_stuck
//
// Threading: pure functions.
#pragma once

#include "ganesha-fsal/admin/source.h"
#include "ganesha-fsal/server/operation_times.h"
#include "rpc/base/metrics.h"

namespace weft::mds::admin {

void write_metrics(const SystemReport& system, Metrics& out);
void write_times(const OperationTimes& times, Metrics& out);

}  // namespace weft::mds::admin
