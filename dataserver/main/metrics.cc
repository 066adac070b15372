#include "dataserver/main/metrics.h"

#include <bit>
#include <chrono>

namespace weft::ds {
namespace {

// Of what is counted in thousandths.
double ratio(std::uint32_t permille) { return permille / 1000.0; }

void write_operations(const CounterTotals& now, Metrics& out) {
  const auto operations = [&out](const char* op, std::uint64_t count) {
    out.counter("weft_ds_operations_total", "NFS operations begun", count, {{"op", op}});
  };
  operations("read", now.reads);
  operations("write", now.writes);
  operations("commit", now.commits);
}

void write_times(const TimesOfOps& times, Metrics& out) {
  const auto took = [&](const char* op, TimedOp which) {
    out.histogram("weft_ds_operation_seconds", "From an operation's begin to its answer",
                  times[static_cast<std::size_t>(which)], {{"op", op}});
  };
  took("read", TimedOp::kRead);
  took("write", TimedOp::kWrite);
  took("commit", TimedOp::kCommit);
}

void write_run_queues(const SystemLoad::RunQueues& now, Metrics& out) {
  constexpr char kName[] = "weft_ds_run_queue";
  constexpr char kHelp[] = "Threads that run or want to, averaged over so many seconds";
  out.gauge(kName, kHelp, ratio(now.five_seconds), {{"seconds", "5"}});
  out.gauge(kName, kHelp, ratio(now.minute), {{"seconds", "60"}});
}

constexpr const char* name_of(rpc::Via via) {
  switch (via) {
    case rpc::Via::kTcp: return "tcp";
    case rpc::Via::kRdma: return "rdma";
    case rpc::Via::kSharedMemory: break;
  }
  return "shared memory";
}

// One metric after the other, with all of its labels.
void write_transports(const rpc::SessionServerCounts& now, Metrics& out) {
  const auto each = [&now](auto write) {
    for (const rpc::Via via : rpc::kAllVia)
      write(name_of(via), now.by[static_cast<std::size_t>(via)]);
  };
  each([&out](const char* via, const auto& by) {
    out.gauge("weft_ds_transport_connections", "Connections open, of clients and other servers",
              by.connections, {{"transport", via}});
  });
  each([&out](const char* via, const auto& by) {
    out.counter("weft_ds_transport_calls_total", "Requests that came", by.calls,
                {{"transport", via}});
  });
  each([&out](const char* via, const auto& by) {
    constexpr char kName[] = "weft_ds_transport_bytes_total";
    constexpr char kHelp[] = "Bytes of requests and answers";
    out.counter(kName, kHelp, by.bytes_in, {{"transport", via}, {"direction", "in"}});
    out.counter(kName, kHelp, by.bytes_out, {{"transport", via}, {"direction", "out"}});
  });
}

void write_rdma(const MetricsSample& now, Metrics& out) {
  if (!now.rdma_configured) return;
  out.gauge("weft_ds_rdma_listening", "Addresses at which clients can come by RDMA",
            now.rdma_listening);
  constexpr char kBytes[] = "weft_ds_rdma_bytes_total";
  constexpr char kBytesHelp[] = "Bulk data read from clients' memory, and written to it";
  out.counter(kBytes, kBytesHelp, now.rdma_in_bytes, {{"direction", "in"}});
  out.counter(kBytes, kBytesHelp, now.rdma_out_bytes, {{"direction", "out"}});
  out.gauge("weft_ds_partner_rdma_connections", "Connections to partners by RDMA",
            now.partner_rdma_connections);
  out.counter("weft_ds_partner_rdma_calls_total", "Requests to partners by RDMA",
              now.partner_rdma_calls);
  constexpr char kPartner[] = "weft_ds_partner_rdma_bytes_total";
  constexpr char kPartnerHelp[] = "Bulk data from partners and to them, by RDMA";
  out.counter(kPartner, kPartnerHelp, now.partner_rdma_in_bytes, {{"direction", "in"}});
  out.counter(kPartner, kPartnerHelp, now.partner_rdma_out_bytes, {{"direction", "out"}});
}

void write_target_rdma(const MetricsSample& now, Metrics& out) {
  if (!now.targets_by_rdma) return;
  out.gauge("weft_ds_target_rdma_connections", "Connections to targets by RDMA",
            now.target_rdma_connections);
  out.counter("weft_ds_target_rdma_calls_total", "Requests to targets by RDMA",
              now.target_rdma_calls);
  constexpr char kBytes[] = "weft_ds_target_rdma_bytes_total";
  constexpr char kHelp[] = "Bulk data from targets and to them, by RDMA";
  out.counter(kBytes, kHelp, now.target_rdma_in_bytes, {{"direction", "in"}});
  out.counter(kBytes, kHelp, now.target_rdma_out_bytes, {{"direction", "out"}});
}

void write_mirror(const MirrorCounts& now, std::size_t window_bytes, Metrics& out) {
  out.gauge("weft_ds_mirror_pending_bytes", "Answered, and not at every partner yet",
            now.pending_bytes);
  out.gauge("weft_ds_mirror_oldest_pending_seconds", "Age of the oldest of them",
            std::chrono::duration<double>(now.oldest_pending).count());
  out.gauge("weft_ds_mirror_window_bytes", "What may be owed to partners at most", window_bytes);
  out.gauge("weft_ds_mirror_partners_away", "Partners that are not written to just now",
            now.partners_away);
  out.counter("weft_ds_mirror_forwarded_bytes_total", "Bytes written at partners",
              now.forwarded_bytes);
  out.counter("weft_ds_mirror_missed_writes_total", "Writes acknowledged without a partner",
              now.missed_writes);
}

void write_scrub_metrics(const ScrubView& scrub, Metrics& out) {
  out.gauge("weft_ds_parity_scrub_running", "1 while the parity group is gone through",
            scrub.running.load() ? 1 : 0);
  out.gauge("weft_ds_parity_scrub_ratio", "How much of its objects this scrub, or the last, did",
            ratio(scrub.permille.load()));
  out.gauge("weft_ds_parity_scrub_bytes", "Bytes it read, of all targets", scrub.bytes.load());
  out.gauge("weft_ds_parity_scrub_corrupt_blocks", "Blocks, checksums and headers that were wrong",
            scrub.corrupt.load());
  out.gauge("weft_ds_parity_scrub_wrong_parity", "Blocks of parity that did not fit the data",
            scrub.parity.load());
  out.gauge("weft_ds_parity_scrub_lost_blocks", "Blocks that cannot be computed",
            scrub.lost.load());
  out.gauge("weft_ds_parity_scrub_failed", "Parts of objects that could not be looked at",
            scrub.failed.load());
  out.gauge("weft_ds_parity_scrub_ended_timestamp_seconds", "When one ended last, since 1970",
            scrub.ended.load());
  out.counter("weft_ds_parity_scrubs_total", "Scrubs that ended", scrub.rounds.load());
}

}  // namespace

void write_target_metrics(const TargetView& target, Metrics& out) {
  out.gauge("weft_ds_target_connected", "Connections to the target", target.connected.load(),
            {{"transport", transport_text(target)}});
  out.counter("weft_ds_target_connections_total", "Connections made to the target",
              target.connections.load());
  out.counter("weft_ds_target_timeouts_total", "Operations that the target did not answer in time",
              target.timed_out.load());
  out.counter("weft_ds_target_lent_bytes_total", "Bytes read and written in memory it shares",
              target.lent_bytes.load());
  out.counter("weft_ds_target_past_bytes_total", "Bytes read from the page cache, past the target",
              target.past_bytes.load());
  out.counter("weft_ds_target_past_written_bytes_total",
              "Bytes written into the page cache, past the target", target.past_written.load());
}

void write_parity_metrics(const ParityView& parity, Metrics& out) {
  out.gauge("weft_ds_parity_state", "1 for the state of the parity group", 1,
            {{"state", to_string(parity.state.load())}});
  out.gauge("weft_ds_parity_member_out", "The target that is not read; -1: all are",
            parity.out.load());
  out.gauge("weft_ds_parity_member_awaited",
            "The target without which the group cannot go on; -1: none",
            parity.awaited.load() == 0 ? -1 : std::countr_zero(parity.awaited.load()));
  out.gauge("weft_ds_parity_given_up_blocks",
            "Blocks that only a target had that was given up, until a scrub finds none",
            parity.given_up.load());
  out.gauge("weft_ds_parity_dirty_regions", "Regions to be gone through after a crash",
            parity.dirty_regions.load());
  out.counter("weft_ds_parity_corrupt_blocks_total", "Blocks that did not match, written anew",
              parity.corrupt_blocks.load());
  out.counter("weft_ds_parity_objects_gone_total", "Objects of which a target has lost files",
              parity.objects_gone.load());
  out.counter("weft_ds_parity_lost_blocks_total", "Blocks that could not be computed",
              parity.lost_blocks.load());
  out.counter("weft_ds_parity_members_put_out_total", "Times that a target was put out",
              parity.put_out.load());
  out.counter("weft_ds_parity_recoveries_total", "Recoveries of the group, starts included",
              parity.recoveries.load());
  out.counter("weft_ds_parity_rebuilds_total", "Targets that got what they had missed",
              parity.rebuilds.load());
  out.counter("weft_ds_parity_replaced_total", "Targets that were new and empty, and have it all",
              parity.replaced.load());
  out.gauge("weft_ds_parity_rebuild_ratio", "How much of its objects this rebuild has, or had",
            ratio(parity.rebuild_permille.load()));
  out.gauge("weft_ds_parity_rebuilt_bytes", "Bytes written by this rebuild, or the last",
            parity.rebuilt_bytes.load());
  out.gauge("weft_ds_parity_rebuild_objects_left", "Objects it has not gone through",
            parity.rebuild_objects_left.load());
  write_scrub_metrics(parity.scrub, out);
}

void write_metrics(const MetricsSample& now, Metrics& out) {
  write_operations(now.operations, out);
  write_times(now.times, out);
  out.counter("weft_ds_read_bytes_total", "Bytes read by clients", now.operations.read_bytes);
  out.counter("weft_ds_partner_read_bytes_total",
              "Bytes read by data servers that make copies equal",
              now.operations.partner_read_bytes);
  out.counter("weft_ds_write_bytes_total", "Bytes written by clients", now.operations.write_bytes);
  out.counter("weft_ds_zero_copy_bytes_total", "Bytes read that were sent from the page cache",
              now.operations.zero_copy_bytes);
  constexpr char kShared[] = "weft_ds_shared_memory_bytes_total";
  constexpr char kSharedHelp[] = "Bulk data exchanged with a metadata server in shared memory";
  out.counter(kShared, kSharedHelp, now.shared_in_bytes, {{"direction", "in"}});
  out.counter(kShared, kSharedHelp, now.shared_out_bytes, {{"direction", "out"}});
  write_rdma(now, out);
  write_target_rdma(now, out);
  out.counter("weft_ds_errors_total", "Operations answered with an error", now.operations.errors);
  out.counter("weft_ds_handles_refused_total",
              "Handles that were forged, foreign, fenced, or lacked the right",
              now.operations.refused);
  out.counter("weft_ds_size_queries_total", "File sizes asked of the metadata server",
              now.operations.size_queries);
  out.counter("weft_ds_size_reports_total", "Stable writes told to the metadata server",
              now.operations.size_reports);
  out.counter("weft_ds_replays_total", "Requests recognised as sent again", now.sessions.replays);
  out.gauge("weft_ds_running", "Operations in progress", now.operations.running);
  write_run_queues(now.run_queues, out);
  out.gauge("weft_ds_lease_waiting", "Requests that wait for a lease of the metadata server",
            now.lease_waiting);
  out.gauge("weft_ds_fences", "Objects and clients of which older handles are refused", now.fences);
  out.gauge("weft_ds_fence_log_bytes", "Size of the fencing log", now.fence_log_bytes);
  out.gauge("weft_ds_connections", "Connections open", now.sessions.connections);
  out.gauge("weft_ds_sessions", "Sessions open", now.sessions.sessions);
  write_transports(now.sessions, out);
  out.gauge("weft_ds_memory_bytes", "Memory of data in transit", now.memory_bytes);
  out.gauge("weft_ds_store_capacity_bytes", "Size of the store's file system",
            now.store.capacity_bytes);
  out.gauge("weft_ds_store_free_bytes", "Free in the store's file system", now.store.free_bytes);
  out.gauge("weft_ds_store_objects", "Objects in the store", now.store.objects);
  out.gauge("weft_ds_open_files", "Objects of a folder store that are open", now.open_files);
  out.counter("weft_ds_descriptor_waits_total",
              "Objects that waited to be opened until others were synced and closed",
              now.descriptor_waits);
  write_mirror(now.mirror, now.mirror_window_bytes, out);
  if (now.read_ahead) {
    out.counter("weft_ds_prefetch_reads_total", "Reads begun since a client is expected to read",
                now.read_ahead->reads);
    out.counter("weft_ds_prefetch_bytes_total", "Bytes read so", now.read_ahead->bytes);
    out.counter("weft_ds_prefetch_dropped_total", "Expected reads forgotten, since more came",
                now.read_ahead->dropped);
  }
  out.gauge("weft_ds_registered", "1 while registered with the metadata server",
            now.registered ? 1 : 0);
}

}  // namespace weft::ds
