// What the metadata server tells Prometheus: the reports of `weft status` and `weft ds list`.
//
//   weft_mds_operations_total{op="read|write"}         served by itself: clients without pNFS
//   weft_mds_read_bytes_total, weft_mds_write_bytes_total
//   weft_mds_layouts_granted_total, _refused_total, _returned_total, _committed_total
//   weft_mds_layouts                                   held by clients now
//   weft_mds_recalls_total, weft_mds_recalls_pending, weft_mds_oldest_recall_seconds
//   weft_mds_fences_total, weft_mds_fence_failures_total
//   weft_mds_layout_errors_total                       reported by clients
//   weft_mds_clients, weft_mds_grace_left_seconds, weft_mds_removals_queued
//   weft_mds_store_failed, weft_mds_store_full, weft_mds_store_writes_stopped (0 or 1)
//   weft_mds_store_background_errors_total
//   weft_mds_store_memory_bytes, _table_bytes, _compaction_bytes
//   weft_mds_data_servers{state="up|suspect|down|unknown"}
//   weft_mds_data_server_up{id,name}                   1 or 0
//   weft_mds_data_server_capacity_bytes{id,name}, _free_bytes{id,name}, as they reported
//
// Threading: pure functions.
#pragma once

#include "ganesha-fsal/admin/source.h"
#include "rpc/base/metrics.h"

namespace weft::mds::admin {

void write_metrics(const SystemReport& system, Metrics& out);

}  // namespace weft::mds::admin
