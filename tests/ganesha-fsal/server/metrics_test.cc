#include "ganesha-fsal/server/metrics.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

namespace weft::mds::admin {
namespace {

bool has(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

DataServerReport server(std::uint32_t id, DsState state) {
  DataServerReport report;
  report.id = id;
  report.name = "ds" + std::to_string(id);
  report.state = state;
  report.capacity_bytes = 1000;
  report.free_bytes = 10 * id;
  return report;
}

}  // namespace

TEST_CASE("Prometheus is told what the reports say", "[admin]") {
  SystemReport system;
  StatusReport& status = system.status;
  status.mds_read_calls = 3;
  status.mds_written_bytes = std::uint64_t{5} << 40;
  status.layouts_out = 7;
  status.recalls = 8;
  status.oldest_recall_ms = 1500;
  status.fence_failures = 2;
  status.store.failed = true;
  status.store.full = true;
  status.inlined = {.files = 20, .bytes = 30, .writes = 40, .grown = 50, .busy = true};
  status.memory = {.resident = 1000, .cache = 200, .cache_pinned = 30, .opens = 4, .files = 5};
  status.repair.stale_objects = 4;
  status.repair.copied_bytes = 4096;
  status.version = "1.2.3";
  status.uptime_ms = 2500;
  status.scrub.unlisted = 3;
  status.scrub.findings.resize(2);
  status.scrub.findings[0].mended = true;
  DataServerReport first = server(1, DsState::kUp);
  first.failure_domain = "rack\"1\"";
  first.proxy_shared_bytes = 5;
  first.stuck = {{.objects = 4, .why = "no room"}, {.objects = 3, .why = "no copy"}};
  first.trouble = "its target does not answer";
  Metrics metrics;
  system.data_servers = {first, server(2, DsState::kDown)};
  write_metrics(system, metrics);
  const std::string text = metrics.text();
  CHECK(has(text, "weft_mds_operations_total{op=\"read\"} 3"));
  CHECK(has(text, "weft_mds_operations_total{op=\"write\"} 0"));
  CHECK(has(text, "weft_mds_write_bytes_total 5497558138880"));
  CHECK(has(text, "weft_build_info{program=\"weft-mds\",version=\"1.2.3\"} 1"));
  CHECK(has(text, "weft_mds_uptime_seconds 2.5"));
  CHECK(has(text, "weft_mds_scrub_unresolved 4"));
  const std::string labels = R"({id="1",name="ds1",domain="rack\"1\""})";
  CHECK(has(text, "weft_mds_data_server_objects_stuck" + labels + " 7"));
  CHECK(has(text, "weft_mds_data_server_store_away" + labels + " 1"));
  CHECK(has(text, "weft_mds_data_server_shared_memory_bytes_total" + labels + " 5"));
  CHECK(has(text, "# TYPE weft_mds_data_server_shared_memory_bytes_total counter"));
  CHECK(has(text, "weft_mds_layouts 7"));
  CHECK(has(text, "weft_mds_recalls_total 8"));
  CHECK(has(text, "weft_mds_oldest_recall_seconds 1.5"));
  CHECK(has(text, "weft_mds_fence_failures_total 2"));
  CHECK(has(text, "weft_mds_store_failed 1"));
  CHECK(has(text, "weft_mds_store_full 1"));
  CHECK(has(text, "weft_mds_inline_files 20"));
  CHECK(has(text, "weft_mds_inline_bytes 30"));
  CHECK(has(text, "weft_mds_inline_operations_total{op=\"write\"} 40"));
  CHECK(has(text, "weft_mds_inline_grown_total 50"));
  CHECK(has(text, "weft_mds_inline_busy 1"));
  CHECK(has(text, "weft_mds_memory_resident_bytes 1000"));
  CHECK(has(text, "weft_mds_store_cache_bytes 200"));
  CHECK(has(text, "weft_mds_store_cache_pinned_bytes 30"));
  CHECK(has(text, "weft_mds_opens 4"));
  CHECK(has(text, "weft_mds_files_in_use 5"));
  CHECK(has(text, "weft_mds_stale_objects 4"));
  CHECK(has(text, "weft_mds_repair_copied_bytes_total 4096"));
  CHECK(has(text, "weft_mds_data_server_stale_objects{id=\"2\",name=\"ds2\",domain=\"-\"} 0"));
  CHECK(has(text, "weft_mds_data_servers{state=\"up\"} 1"));
  CHECK(has(text, "weft_mds_data_servers{state=\"suspect\"} 0"));
  CHECK(has(text, "weft_mds_data_server_up{id=\"2\",name=\"ds2\",domain=\"-\"} 0"));
  CHECK(has(text, "weft_mds_data_server_free_bytes" + labels + " 10"));
  CHECK_FALSE(text.contains("free_bytes{id=\"2\""));  // it is down
  CHECK_FALSE(text.contains("capacity_bytes{id=\"2\""));
}

TEST_CASE("Prometheus is told how long each kind of operation takes", "[admin]") {
  OperationTimes times;
  times.add(TimedOp::kLookup, std::chrono::microseconds(250));
  times.add(TimedOp::kCommit, std::chrono::milliseconds(20));
  times.add_reply_wait(std::chrono::milliseconds(5));
  Metrics metrics;
  write_times(times, metrics);
  const std::string text = metrics.text();
  CHECK(has(text, R"(weft_mds_operation_seconds_bucket{op="lookup",le="0.0001"} 0)"));
  CHECK(has(text, R"(weft_mds_operation_seconds_bucket{op="lookup",le="0.0003"} 1)"));
  CHECK(has(text, R"(weft_mds_operation_seconds_count{op="remove"} 0)"));
  CHECK(has(text, R"(weft_mds_operation_seconds_sum{op="commit"} 0.02)"));
  CHECK(has(text, R"(weft_mds_reply_wait_seconds_bucket{le="0.01"} 1)"));
}

}  // namespace weft::mds::admin
