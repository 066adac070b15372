// What came of maintenance, for people.
#include <spdlog/fmt/fmt.h>

#include "tools/weft/report.h"
#include "tools/weft/table.h"

namespace weft::cli {
namespace {

using Lines = std::vector<std::string>;

constexpr std::size_t kLongestName = 50;  // columns, in a sentence

std::string title(const mds::ServerName& server) {
  return server.name.empty() ? fmt::format("data server {}", server.id)
                             : fmt::format("data server {} ({})", server.id,
                                           shortened(printable(server.name), kLongestName));
}

std::string what_became(const mds::StrayReport& stray) {
  if (stray.is == "removed") return "queued for removal";
  return stray.is == "foreign" ? "left: of a file that was never made here" : "left";
}

Lines audit_lines(const mds::AuditReport& audit) {
  if (!audit.running && audit.rounds == 0) return {"no audit since the metadata server started"};
  Lines lines;
  lines.push_back(audit.running
                      ? fmt::format("audit running for {}{}", short_duration(audit.age_ms),
                                    audit.only_tell ? ", changing nothing" : "")
                      : fmt::format("audit{} ended {} ago",
                                    audit.only_tell ? " that changed nothing" : "",
                                    short_duration(audit.age_ms)));
  lines.push_back(
      fmt::format("{} data servers gone through, {} objects", audit.servers, audit.objects));
  lines.push_back(
      fmt::format("{} strays, {} of them queued for removal; {} of files that were never made "
                  "here; {} in all",
                  audit.strays, audit.removed, audit.foreign, human_bytes(audit.bytes)));
  for (const mds::StrayReport& stray : audit.found) {
    lines.push_back(fmt::format("{}: {}, {}, {}", title(stray.server), stray.object,
                                human_bytes(stray.bytes), what_became(stray)));
  }
  const std::uint64_t all = audit.strays + audit.foreign;
  if (all > audit.found.size()) {
    lines.push_back(fmt::format("and {} more (event=stray in the log)", all - audit.found.size()));
  }
  for (const mds::AskedReport& failure : audit.failures) {
    lines.push_back(fmt::format("{} was not gone through to the end: {}", title(failure.server),
                                failure.error));
  }
  return lines;
}

Lines plan_lines(const mds::RebalancePlanReport& plan) {
  Lines lines;
  lines.push_back(fmt::format("fullest and emptiest are {:.1f} % apart now, and {:.1f} % after",
                              plan.spread_before * 100, plan.spread_after * 100));
  for (const mds::PlannedMovesReport& moves : plan.moves) {
    lines.push_back(fmt::format("data server {} to {}: {} objects, {}", moves.from, moves.to,
                                moves.objects, human_bytes(moves.bytes)));
  }
  if (!plan.whole) lines.push_back("there is more: not all objects were looked at");
  return lines;
}

Lines removed_lines(const std::string& server, std::uint64_t left) {
  if (left == 0) return {server + " is removed"};
  return {fmt::format("{} is gone. What it had, {}, is made anew at others from the copies "
                      "that are left, and then it is removed. See weft ds list.",
                      server, mds::counted_objects(left)),
          "If it comes back before that, its store may be used again after weft ds undrain."};
}

// Of what is done with one data server.
Lines server_lines(const mds::MaintenanceReport& report) {
  const std::string server = report.server ? title(*report.server) : "data server";
  const std::uint64_t left = report.objects_left.value_or(0);
  if (report.action == "drain") {
    return {fmt::format("{} is draining: {} to move. See weft ds list.", server,
                        mds::counted_objects(left))};
  }
  if (report.action == "undrain") {
    return {server + " serves again; what was moved stays where it is"};
  }
  if (report.action == "remove") return removed_lines(server, left);
  if (report.action == "accept") {
    return {server +
            " is used with the store it has now. Where another copy is current, its own is "
            "repaired from that first. Where it has the only copy, files are as they were when "
            "the store was copied, and what was written since is lost. See weft ds list."};
  }
  if (report.action == "give-up") {
    return {fmt::format("the parity group of {} goes on without target {}. Blocks that only that "
                        "target had cannot be read until they are written anew. How many: weft ds "
                        "list; of which objects: event=parity_given_up in the data server's log.",
                        server, report.target.value_or(0)),
            "An empty store at the target's address takes its place."};
  }
  return {
      fmt::format("copies of fileid {} that differ from that at {} are made equal to it, unless "
                  "somebody writes the file: weft scrub status says what came of it",
                  report.fileid.value_or(0), server)};
}

// Of what is done with all of them.
Lines system_lines(const mds::MaintenanceReport& report) {
  const bool ran = report.was_running.value_or(false);
  const char* unchanged = report.action.ends_with("-check") ? ", and nothing is changed" : "";
  if (report.action == "scrub-stop") return {ran ? "the scrub ends" : "no scrub runs"};
  if (report.action.starts_with("scrub")) {
    return {fmt::format("{} compared{}: weft scrub status",
                        report.fileid ? "its copies are" : "the copies of all files are",
                        unchanged)};
  }
  if (report.action == "rebalance") return {"rebalancing: weft status"};
  if (report.action == "rebalance-stop") {
    return {ran ? "nothing more is begun; what has begun is finished" : "no rebalance runs"};
  }
  if (report.action == "restored-accept") {
    return {fmt::format("{} files are served as they are: what is gone of them is zeros",
                        report.files.value_or(0))};
  }
  if (report.action == "audit-stop") return {ran ? "the audit ends" : "no audit runs"};
  return {
      fmt::format("the objects of all data servers are held against the files there are{}: weft "
                  "audit status",
                  unchanged)};
}

}  // namespace

std::string maintenance_text(const mds::MaintenanceReport& report) {
  Lines lines = report.audit    ? audit_lines(*report.audit)
                : report.plan   ? plan_lines(*report.plan)
                : report.server ? server_lines(report)
                                : system_lines(report);
  const char* group = report.was_running ? "is not gone through any more" : "is gone through";
  for (const mds::AskedReport& asked : report.groups) {
    const std::string server = title(asked.server);
    lines.push_back(asked.error.empty() ? fmt::format("the parity group of {} {}", server, group)
                                        : server + ": " + asked.error);
  }
  std::string out;
  for (const std::string& line : lines) {
    out += report.audit ? wrapped("", printable(line)) : printable(line) + "\n";
  }
  return out;
}

}  // namespace weft::cli
