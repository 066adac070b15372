#include "ganesha-fsal/server/metrics.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "rpc/base/process_metrics.h"

namespace weft::mds::admin {
namespace {

double seconds(std::uint64_t milliseconds) { return static_cast<double>(milliseconds) / 1000; }

void write_io(const StatusReport& status, Metrics& out) {
  constexpr char kName[] = "weft_mds_operations_total";
  constexpr char kHelp[] = "READs and WRITEs that the metadata server served itself";
  out.counter(kName, kHelp, status.mds_read_calls, {{"op", "read"}});
  out.counter(kName, kHelp, status.mds_write_calls, {{"op", "write"}});
  out.counter("weft_mds_read_bytes_total", "Bytes read through the metadata server",
              status.mds_read_bytes);
  out.counter("weft_mds_write_bytes_total", "Bytes written through the metadata server",
              status.mds_written_bytes);
}

void write_layouts(const StatusReport& status, Metrics& out) {
  out.counter("weft_mds_layouts_granted_total", "LAYOUTGETs granted", status.layoutgets);
  out.counter("weft_mds_layouts_refused_total", "LAYOUTGETs answered with an error",
              status.layoutget_refusals);
  out.counter("weft_mds_layouts_returned_total", "Layouts returned", status.layoutreturns);
  out.counter("weft_mds_layouts_committed_total", "LAYOUTCOMMITs", status.layoutcommits);
  out.gauge("weft_mds_layouts", "Layouts that clients hold", status.layouts_out);
  out.counter("weft_mds_recalls_total", "Recalls sent", status.recalls);
  out.gauge("weft_mds_recalls_pending", "Recalls without an answer", status.recalls_pending);
  out.gauge("weft_mds_oldest_recall_seconds", "Age of the oldest recall without an answer",
            seconds(status.oldest_recall_ms));
  out.counter("weft_mds_fences_total", "Clients fenced", status.fences);
  out.counter("weft_mds_fence_failures_total", "Attempts to fence that failed and are repeated",
              status.fence_failures);
  out.counter("weft_mds_layout_errors_total", "Errors of data servers that clients reported",
              status.layout_errors);
}

void write_store(const StoreReport& store, Metrics& out) {
  out.gauge("weft_mds_store_failed", "1 when nothing can be changed until a restart",
            store.failed ? 1 : 0);
  out.gauge("weft_mds_store_full", "1 while nothing may be added to it", store.full ? 1 : 0);
  out.gauge("weft_mds_store_writes_stopped", "1 while writes wait for compaction",
            store.writes_stopped ? 1 : 0);
  out.counter("weft_mds_store_background_errors_total", "Flushes and compactions that failed",
              store.background_errors);
  out.counter("weft_mds_store_commits_total", "Changes of the metadata", store.commits);
  out.counter("weft_mds_store_syncs_total", "Syncs of the metadata's log", store.syncs);
  out.gauge("weft_mds_store_free_bytes", "Free in the store's file system", store.free_bytes);
  out.gauge("weft_mds_store_floor_bytes", "How much of it is to stay free", store.floor_bytes);
  out.gauge("weft_mds_store_memory_bytes", "Metadata in memory and log only", store.memory_bytes);
  out.gauge("weft_mds_store_table_bytes", "Metadata in tables on disk", store.table_bytes);
  out.gauge("weft_mds_store_compaction_bytes", "Metadata still to be compacted",
            store.compaction_bytes);
}

void write_inline(const InlineReport& inlined, Metrics& out) {
  out.gauge("weft_mds_inline_files", "Files in the metadata store, about", inlined.files);
  out.gauge("weft_mds_inline_bytes", "Bytes of the metadata store that they take, about",
            inlined.bytes);
  constexpr char kName[] = "weft_mds_inline_operations_total";
  constexpr char kHelp[] = "READs and WRITEs of files in the metadata store";
  out.counter(kName, kHelp, inlined.reads, {{"op", "read"}});
  out.counter(kName, kHelp, inlined.writes, {{"op", "write"}});
  out.counter("weft_mds_inline_read_bytes_total", "Bytes read from the metadata store",
              inlined.read_bytes);
  out.counter("weft_mds_inline_write_bytes_total", "Bytes written to the metadata store",
              inlined.written_bytes);
  out.counter("weft_mds_inline_grown_total", "Files that went from there to data servers",
              inlined.grown);
  out.gauge("weft_mds_inline_busy", "1 while new files go to data servers at once",
            inlined.busy ? 1 : 0);
}

void write_memory(const MemoryReport& memory, Metrics& out) {
  out.gauge("weft_mds_memory_resident_bytes", "Memory of the process", memory.resident);
  out.gauge("weft_mds_store_cache_bytes", "Of it the cache of the metadata store", memory.cache);
  out.gauge("weft_mds_store_cache_pinned_bytes", "Of that cache what stays", memory.cache_pinned);
  out.gauge("weft_mds_opens", "Opens of NFSv4 clients", memory.opens);
  out.gauge("weft_mds_files_in_use", "Files of which something is in memory", memory.files);
}

void write_scrub(const ScrubReport& scrub, Metrics& out) {
  out.gauge("weft_mds_scrub_running", "1 while copies of files are compared",
            scrub.running ? 1 : 0);
  out.gauge("weft_mds_scrub_files", "Files compared by the last scrub", scrub.files);
  out.gauge("weft_mds_scrub_differing", "Copies that differed in the last scrub", scrub.differing);
  out.gauge("weft_mds_scrub_mended", "Of these those that were made equal", scrub.mended);
  out.gauge("weft_mds_scrub_failed", "Files that the last scrub could not compare", scrub.failed);
  const auto mended = std::ranges::count(scrub.findings, true, &ScrubFindingReport::mended);
  out.gauge("weft_mds_scrub_unresolved",
            "Copies that differ, of which somebody has to say which is right",
            scrub.unlisted + scrub.findings.size() - static_cast<std::uint64_t>(mended));
}

void write_repair(const RepairTotalsReport& repair, Metrics& out) {
  out.gauge("weft_mds_stale_objects", "Objects of copies that missed writes", repair.stale_objects);
  out.counter("weft_mds_moved_objects_total", "Objects that another data server has taken over",
              repair.moved);
  out.counter("weft_mds_resynced_objects_total", "Objects made current again", repair.resynced);
  out.counter("weft_mds_compared_objects_total", "Objects of current copies that were compared",
              repair.compared);
  out.counter("weft_mds_repair_failures_total", "Repair jobs that had to be begun again",
              repair.failed);
  out.counter("weft_mds_repair_compared_bytes_total", "Bytes compared with another copy's",
              repair.compared_bytes);
  out.counter("weft_mds_repair_differing_bytes_total", "Bytes of blocks that differed",
              repair.differing_bytes);
  out.counter("weft_mds_repair_copied_bytes_total", "Bytes copied from one data server to another",
              repair.copied_bytes);
}

// One value of each server: a counter when its name says so, otherwise a gauge.
void each(const std::vector<DataServerReport>& servers, Metrics& out, const char* name,
          const char* help, auto value) {
  const bool counts = std::string_view(name).ends_with("_total");
  for (const DataServerReport& server : servers) {
    const std::string id = std::to_string(server.id);
    // All that name no failure domain are in one together.
    const std::string domain = server.failure_domain.empty() ? "-" : server.failure_domain;
    const Metrics::Labels labels = {{"id", id}, {"name", server.name}, {"domain", domain}};
    counts ? out.counter(name, help, value(server), labels)
           : out.gauge(name, help, value(server), labels);
  }
}

using Report = DataServerReport;

void write_servers(const std::vector<Report>& servers, Metrics& out) {
  for (const auto state : {DsState::kUp, DsState::kSuspect, DsState::kDown, DsState::kUnknown}) {
    const auto count = std::ranges::count(servers, state, &Report::state);
    out.gauge("weft_mds_data_servers", "Data servers by state", count,
              {{"state", to_string(state)}});
  }
  each(servers, out, "weft_mds_data_server_up", "1 while the data server is up",
       [](const Report& server) { return server.state == DsState::kUp ? 1 : 0; });
  each(servers, out, "weft_mds_data_server_shared_memory",
       "1 while its proxied I/O goes through shared memory",
       [](const Report& server) { return server.proxy == "shared memory" ? 1 : 0; });
  each(servers, out, "weft_mds_data_server_rdma", "1 while its proxied I/O goes by RDMA",
       [](const Report& server) { return server.proxy == "rdma" ? 1 : 0; });
  each(servers, out, "weft_mds_data_server_shared_memory_bytes_total",
       "Bulk data that went through shared memory",
       [](const Report& server) { return server.proxy_shared_bytes; });
  each(servers, out, "weft_mds_data_server_read_bytes_total", "Bytes clients read there",
       [](const Report& server) { return server.read_bytes; });
  each(servers, out, "weft_mds_data_server_write_bytes_total", "Bytes clients wrote there",
       [](const Report& server) { return server.written_bytes; });
  // What one that is away last said is not what there is.
  std::vector<Report> here;
  std::ranges::copy_if(servers, std::back_inserter(here), [](const Report& server) {
    return server.state == DsState::kUp || server.state == DsState::kSuspect;
  });
  each(here, out, "weft_mds_data_server_capacity_bytes",
       "Size of its store's file system, unless it is down",
       [](const Report& server) { return server.capacity_bytes; });
  each(here, out, "weft_mds_data_server_free_bytes",
       "Free in its store's file system, unless it is down",
       [](const Report& server) { return server.free_bytes; });
}

// What may be wrong with them.
void write_server_states(const std::vector<Report>& servers, Metrics& out) {
  each(servers, out, "weft_mds_data_server_stale_objects", "Its objects that missed writes",
       [](const Report& server) { return server.stale_objects; });
  each(servers, out, "weft_mds_data_server_repairs", "Repair jobs of its objects under way",
       [](const Report& server) { return server.repairs.size(); });
  each(servers, out, "weft_mds_data_server_repair_waits", "1 while its repair waits for something",
       [](const Report& server) { return server.repair_waits.empty() ? 0 : 1; });
  each(servers, out, "weft_mds_data_server_store_away",
       "1 while it is connected and serves nothing, since its store is not there",
       [](const Report& server) { return server.trouble.empty() ? 0 : 1; });
  each(servers, out, "weft_mds_data_server_not_accepted",
       "1 while a process asks in vain to be this data server",
       [](const Report& server) { return server.not_accepted.empty() ? 0 : 1; });
  each(servers, out, "weft_mds_data_server_objects_left", "Objects still to be moved off it",
       [](const Report& server) { return server.objects_left; });
  each(servers, out, "weft_mds_data_server_objects_stuck", "Of these those that cannot be moved",
       [](const Report& server) {
         std::uint64_t objects = 0;
         for (const StuckReport& stuck : server.stuck) objects += stuck.objects;
         return objects;
       });
}

}  // namespace

void write_times(const OperationTimes& times, Metrics& out) {
  for (std::size_t op = 0; op < OperationTimes::kNames.size(); ++op) {
    out.histogram("weft_mds_operation_seconds",
                  "What operations took that Ganesha's cache did not answer, without the sync",
                  times.total(op), {{"op", OperationTimes::kNames[op]}});
  }
  out.histogram("weft_mds_reply_wait_seconds", "How long replies waited for the metadata's sync",
                times.reply_waits());
}

void write_metrics(const SystemReport& system, Metrics& out) {
  const StatusReport& status = system.status;
  write_program_metrics("weft-mds", status.version, out);
  out.gauge("weft_mds_uptime_seconds", "Since the process started", seconds(status.uptime_ms));
  write_io(status, out);
  write_layouts(status, out);
  out.gauge("weft_mds_clients", "NFSv4 clients with a confirmed client id", status.clients);
  out.gauge("weft_mds_grace_left_seconds", "How long grace lasts at most",
            seconds(status.grace_left_ms));
  out.gauge("weft_mds_removals_queued", "Objects of removed files still to be deleted",
            status.removals_queued);
  write_repair(status.repair, out);
  write_scrub(status.scrub, out);
  write_store(status.store, out);
  write_inline(status.inlined, out);
  write_memory(status.memory, out);
  out.gauge("weft_mds_stray_objects", "Objects no file needs, that the last audit only told of",
            status.strays);
  out.gauge("weft_mds_foreign_objects", "Objects of files that were never made here",
            status.foreign_objects);
  out.gauge("weft_mds_restored_unchecked_files",
            "Files of a backup still to be compared with their objects", status.restored_unchecked);
  out.gauge("weft_mds_restored_damaged_files", "Files that have lost bytes since the backup",
            status.restored_damaged);
  out.gauge("weft_mds_refused_servers", "Who was refused as a data server in the last minutes",
            status.refused.size());
  out.gauge("weft_mds_warnings", "What weft status warns of: placement, leases, clients",
            status.warnings.size());
  write_servers(system.data_servers, out);
  write_server_states(system.data_servers, out);
}

}  // namespace weft::mds::admin
