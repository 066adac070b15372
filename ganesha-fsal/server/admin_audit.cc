#include "ganesha-fsal/server/admin_audit.h"

#include <spdlog/fmt/fmt.h>

#include "ganesha-fsal/server/admin_maintenance.h"

namespace weft::mds {
namespace {

// Also of one that was removed since.
std::string title_of(MetadataServer& server, std::uint32_t ds_id) {
  for (const ServerView& view : server.cluster().registry().list()) {
    if (view.record.id == ds_id) return title(view);
  }
  return fmt::format("data server {}", ds_id);
}

std::string_view what_became(Stray::Is is) {
  switch (is) {
    case Stray::Is::kLeft: return "left";
    case Stray::Is::kRemoved: return "queued for removal";
    case Stray::Is::kForeign: return "left: of a file that was never made here";
  }
  return "";
}

std::string kib(std::uint64_t bytes) { return fmt::format("{} KiB", (bytes + 1023) / 1024); }

MaintenanceReport status(MetadataServer& server) {
  const AuditState state = server.repairs().auditor().state();
  if (!state.running && state.rounds == 0) {
    return {{"no audit since the metadata server started"}};
  }
  const auto age = human_time(static_cast<std::uint64_t>(state.age.count()) / 1000);
  MaintenanceReport report;
  report.lines.push_back(
      state.running
          ? fmt::format("audit running for {}{}", age, state.only_tell ? ", changing nothing" : "")
          : fmt::format("audit{} ended {} ago", state.only_tell ? " that changed nothing" : "",
                        age));
  report.lines.push_back(
      fmt::format("{} data servers gone through, {} objects", state.servers, state.objects));
  report.lines.push_back(
      fmt::format("{} strays, {} of them queued for removal; {} of files that "
                  "were never made here; {} in all",
                  state.strays, state.removed, state.foreign, kib(state.bytes)));
  for (const Stray& stray : state.found) {
    report.lines.push_back(fmt::format("{}: {}, {}, {}", title_of(server, stray.ds_id),
                                       to_string(stray.object), kib(stray.bytes),
                                       what_became(stray.is)));
  }
  const std::uint64_t all = state.strays + state.foreign;
  if (all > state.found.size()) {
    report.lines.push_back(
        fmt::format("and {} more (event=stray in the log)", all - state.found.size()));
  }
  for (const AuditState::Failure& failure : state.failures) {
    report.lines.push_back(fmt::format("{} was not gone through to the end: {}",
                                       title_of(server, failure.ds_id), failure.why));
  }
  return report;
}

}  // namespace

Result<MaintenanceReport> audit(MetadataServer& server, const std::string& what) {
  if (what == "audit-status") return status(server);
  if (what == "audit-stop") {
    return MaintenanceReport{
        {server.repairs().auditor().end() ? "the audit ends" : "no audit runs"}};
  }
  if (what != "audit" && what != "audit-check") {
    return fail(Errc::kNotSupported, "no such maintenance: " + what);
  }
  const bool only_tell = what == "audit-check";
  if (auto begun = server.repairs().auditor().begin(only_tell); !begun) return pass(begun);
  return MaintenanceReport{
      {fmt::format("the objects of all data servers are held against the files there are{}: weft "
                   "audit status",
                   only_tell ? ", and nothing is changed" : "")}};
}

void warn_of_strays(MetadataServer& server, std::vector<std::string>& warnings) {
  const AuditState state = server.repairs().auditor().state();
  if (state.foreign > 0) {
    warnings.push_back(fmt::format(
        "data servers have {} objects of files that were never made here: either this metadata "
        "store is older than they are, or they are another system's (weft audit status)",
        state.foreign));
  }
  if (!state.running && state.only_tell && state.strays > 0) {
    warnings.push_back(fmt::format(
        "data servers have {} objects that no file needs: weft audit start removes them",
        state.strays));
  }
}

}  // namespace weft::mds
