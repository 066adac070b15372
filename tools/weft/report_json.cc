#include <nlohmann/json.hpp>

#include "tools/weft/report.h"

namespace weft::cli {
using Json = nlohmann::ordered_json;

namespace {

Json findings(const std::vector<mds::ScrubFindingReport>& reports) {
  Json out = Json::array();
  for (const mds::ScrubFindingReport& r : reports) {
    Json extents = Json::array();
    for (const mds::ExtentReport& extent : r.extents) {
      extents.push_back({{"offset", extent.offset}, {"length", extent.length}});
    }
    out.push_back({{"fileid", r.fileid},
                   {"stripe", r.stripe},
                   {"ds", r.ds_id},
                   {"from", r.source},
                   {"differing_bytes", r.differing_bytes},
                   {"extents", std::move(extents)},
                   {"majority", r.majority},
                   {"mended", r.mended}});
  }
  return out;
}

}  // namespace

Json scrub_json(const mds::ScrubReport& r) {
  return {{"running", r.running},
          {"only_tell", r.only_tell},
          {"files", r.files},
          {"written", r.written},
          {"failed", r.failed},
          {"compared_bytes", r.compared_bytes},
          {"differing", r.differing},
          {"mended", r.mended},
          {"rounds", r.rounds},
          {"age_ms", r.age_ms},
          {"findings", findings(r.findings)},
          {"unlisted", r.unlisted},
          {"resolved", r.resolved},
          {"groups", r.groups}};
}

namespace {

// JSON is UTF-8; names of files and machines may be any bytes. What is not UTF-8 is replaced when
// the document is written (main.cc), so it is kept here as it is.
Json repairs(const std::vector<mds::RepairReport>& reports) {
  Json out = Json::array();
  for (const mds::RepairReport& r : reports) {
    out.push_back({{"kind", to_string(r.kind)},
                   {"fileid", r.fileid},
                   {"source", r.source},
                   {"total_bytes", r.total_bytes},
                   {"compared_bytes", r.compared_bytes},
                   {"copied_bytes", r.copied_bytes},
                   {"bytes_per_second", r.bytes_per_second},
                   {"age_ms", r.age_ms},
                   {"remaining_ms", r.remaining_ms}});
  }
  return out;
}

Json data_server(const mds::DataServerReport& r) {
  return {{"id", r.id},
          {"name", r.name},
          {"state", to_string(r.state)},
          {"addresses", r.addresses},
          {"store", r.store},
          {"proxy", r.proxy},
          {"proxy_shared_memory_bytes", r.proxy_shared_bytes},
          {"heartbeat_age_ms", r.heartbeat_age_ms},
          {"uptime_ms", r.uptime_ms},
          {"capacity_bytes", r.capacity_bytes},
          {"free_bytes", r.free_bytes},
          {"objects", r.objects},
          {"read_calls", r.read_calls},
          {"write_calls", r.write_calls},
          {"commit_calls", r.commit_calls},
          {"read_bytes", r.read_bytes},
          {"written_bytes", r.written_bytes},
          {"errors", r.errors},
          {"refused", r.refused},
          {"connections", r.connections},
          {"cpu_busy_permille", r.cpu_busy_permille},
          {"run_queue_milli", r.run_queue_milli},
          {"memory_free_bytes", r.memory_free_bytes},
          {"disk_available_bytes_per_second", r.disk_available},
          {"net_available_bytes_per_second", r.net_available},
          {"mirror_pending_bytes", r.mirror_pending_bytes},
          {"stale_objects", r.stale_objects},
          {"repairs", repairs(r.repairs)},
          {"duty", r.duty},
          {"objects_left", r.objects_left},
          {"objects_moved", r.objects_moved},
          {"moved_bytes", r.moved_bytes},
          {"move_remaining_ms", r.move_remaining_ms},
          {"stuck", r.stuck},
          {"not_accepted", r.not_accepted}};
}

Json store(const mds::StoreReport& r) {
  return {{"failed", r.failed},
          {"writes_stopped", r.writes_stopped},
          {"background_errors", r.background_errors},
          {"memory_bytes", r.memory_bytes},
          {"table_bytes", r.table_bytes},
          {"compaction_bytes", r.compaction_bytes}};
}

Json status(const mds::StatusReport& r) {
  return {{"version", r.version},
          {"uptime_ms", r.uptime_ms},
          {"grace_left_ms", r.grace_left_ms},
          {"clients", r.clients},
          {"inodes_made", r.inodes_made},
          {"mds_read_calls", r.mds_read_calls},
          {"mds_write_calls", r.mds_write_calls},
          {"mds_read_bytes", r.mds_read_bytes},
          {"mds_written_bytes", r.mds_written_bytes},
          {"layoutgets", r.layoutgets},
          {"layoutget_refusals", r.layoutget_refusals},
          {"layoutreturns", r.layoutreturns},
          {"layoutcommits", r.layoutcommits},
          {"layouts_out", r.layouts_out},
          {"recalls_pending", r.recalls_pending},
          {"oldest_recall_ms", r.oldest_recall_ms},
          {"recalls", r.recalls},
          {"fences", r.fences},
          {"fence_failures", r.fence_failures},
          {"layout_errors", r.layout_errors},
          {"removals_queued", r.removals_queued},
          {"stale_objects", r.repair.stale_objects},
          {"resynced_objects", r.repair.resynced},
          {"compared_objects", r.repair.compared},
          {"repair_failures", r.repair.failed},
          {"repair_compared_bytes", r.repair.compared_bytes},
          {"repair_differing_bytes", r.repair.differing_bytes},
          {"repair_copied_bytes", r.repair.copied_bytes},
          {"moved_objects", r.repair.moved},
          {"rebalance", r.rebalance},
          {"scrub", scrub_json(r.scrub)},
          {"store", store(r.store)},
          {"warnings", r.warnings}};
}

}  // namespace

Json data_servers_json(const std::vector<mds::DataServerReport>& servers) {
  Json out = Json::array();
  for (const auto& server : servers) out.push_back(data_server(server));
  return out;
}

Json maintenance_json(const mds::MaintenanceReport& report) { return {{"lines", report.lines}}; }

Json status_json(const ServerSnapshot& system) {
  Json out = status(system.status);
  out["data_servers"] = data_servers_json(system.data_servers);
  out["problems"] = problems(system);
  return out;
}

Json file_json(const mds::FileReport& file) {
  Json stripes = Json::array();
  for (const auto& s : file.stripes) {
    Json copies = Json::array();
    for (const auto& c : s.copies) {
      copies.push_back({{"ds_id", c.ds_id},
                        {"ds_name", c.ds_name},
                        {"ds_state", to_string(c.ds_state)},
                        {"state", c.state},
                        {"leads", c.leads},
                        {"domain", c.domain},
                        {"why", c.why},
                        {"repair", c.repair}});
    }
    stripes.push_back({{"ds_id", s.ds_id},
                       {"ds_name", s.ds_name},
                       {"ds_state", to_string(s.ds_state)},
                       {"why", s.why},
                       {"copies", std::move(copies)}});
  }
  Json grants = Json::array();
  for (const auto& g : file.grants) {
    grants.push_back({{"client_id", g.client_id},
                      {"client", g.client},
                      {"write", g.write},
                      {"age_ms", g.age_ms},
                      {"recalled", g.recalled},
                      {"recall_age_ms", g.recall_age_ms}});
  }
  Json io = Json::array();
  for (const auto& s : file.io) {
    io.push_back({{"ds_id", s.ds_id},
                  {"ds_name", s.ds_name},
                  {"reads", s.reads},
                  {"read_bytes", s.read_bytes},
                  {"writes", s.writes},
                  {"written_bytes", s.written_bytes},
                  {"errors", s.errors}});
  }
  return {{"path", file.path},
          {"fileid", file.fileid},
          {"size", file.size},
          {"object", file.object},
          {"layout_type", file.layout_type},
          {"stripe_unit", file.stripe_unit},
          {"device_id", file.device_id},
          {"policy", file.policy},
          {"skipped", file.skipped},
          {"moving", file.moving},
          {"stripes", std::move(stripes)},
          {"grants", std::move(grants)},
          {"io", std::move(io)}};
}

Json policy_json(const mds::PolicyReport& report) {
  Json rows = Json::array();
  for (const mds::PolicyRow& row : report.rows) {
    rows.push_back({{"key", row.key}, {"value", row.value}, {"from", row.from}});
  }
  return {{"path", report.path},
          {"directory", report.directory},
          {"own", report.own},
          {"effective", std::move(rows)}};
}

Json verify_json(const std::string& mount, const Judgement& j) {
  Json traffic = Json::array();
  for (const DsTraffic& server : j.traffic) {
    traffic.push_back({{"id", server.id},
                       {"name", server.name},
                       {"state", mds::to_string(server.state)},
                       {"read_bytes", server.read_bytes},
                       {"written_bytes", server.written_bytes}});
  }
  Json out = {{"mount", mount},
              {"pnfs", to_string(j.verdict)},
              {"driver", j.driver},
              {"ds_reads", j.ds_reads},
              {"ds_writes", j.ds_writes},
              {"mds_reads", j.mds_reads},
              {"mds_writes", j.mds_writes},
              {"layoutget_errors", j.layoutget_errors}};
  if (j.server_mds_reads) out["server_mds_reads"] = *j.server_mds_reads;
  if (j.server_mds_writes) out["server_mds_writes"] = *j.server_mds_writes;
  out["data_servers"] = std::move(traffic);
  out["reasons"] = j.reasons;
  return out;
}

}  // namespace weft::cli
