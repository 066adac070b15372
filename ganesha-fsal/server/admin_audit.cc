#include "ganesha-fsal/server/admin_audit.h"

#include "ganesha-fsal/server/admin_maintenance.h"

namespace weft::mds {
namespace {

// Also of one that was removed since.
ServerName name_of(MetadataServer& server, std::uint32_t ds_id) {
  for (const ServerView& view : server.cluster().registry().list()) {
    if (view.record.id == ds_id) return name_of(view);
  }
  return {ds_id, ""};
}

std::string_view what_became(Stray::Is is) {
  switch (is) {
    case Stray::Is::kLeft: return "left";
    case Stray::Is::kRemoved: return "removed";
    case Stray::Is::kForeign: return "foreign";
  }
  return "";
}

AuditReport status(MetadataServer& server) {
  const AuditState state = server.repairs().auditor().state();
  AuditReport report{.running = state.running,
                     .only_tell = state.only_tell,
                     .rounds = state.rounds,
                     .age_ms = static_cast<std::uint64_t>(state.age.count()),
                     .servers = state.servers,
                     .objects = state.objects,
                     .strays = state.strays,
                     .removed = state.removed,
                     .foreign = state.foreign,
                     .bytes = state.bytes,
                     .found = {},
                     .failures = {}};
  for (const Stray& stray : state.found) {
    report.found.push_back({name_of(server, stray.ds_id), to_string(stray.object), stray.bytes,
                            std::string(what_became(stray.is))});
  }
  for (const AuditState::Failure& failure : state.failures) {
    report.failures.push_back({name_of(server, failure.ds_id), failure.why});
  }
  return report;
}

// What was made after the backup is strays to a store that came back from it.
Result<MaintenanceReport> begin(MetadataServer& server, const admin::Audit& request) {
  if (server.names().restore() && !request.only_tell && !request.remove_strays) {
    return fail(
        Errc::kInvalid,
        "this metadata store came back from a backup, and objects that it does not know may "
        "be all that is left of files made since: weft audit start --check tells of them, "
        "--remove-strays removes them");
  }
  if (auto begun = server.repairs().auditor().begin(request.only_tell); !begun) return pass(begun);
  return MaintenanceReport{.action = request.only_tell ? "audit-check" : request.kName};
}

MaintenanceReport stop(MetadataServer& server) {
  MaintenanceReport report{.action = admin::StopAudit::kName};
  report.was_running = server.repairs().auditor().end();
  return report;
}

MaintenanceReport tell(MetadataServer& server) {
  MaintenanceReport report{.action = admin::GetAudit::kName};
  report.audit = status(server);
  return report;
}

}  // namespace

void add_audit(MetadataServer& server, admin::Table& table) {
  table.on<admin::Audit>([&server](const admin::Audit& request) { return begin(server, request); });
  table.on<admin::StopAudit>([&server](auto&) { return stop(server); });
  table.on<admin::GetAudit>([&server](auto&) { return tell(server); });
}

void add_strays(MetadataServer& server, StatusReport& report) {
  const AuditState state = server.repairs().auditor().state();
  report.foreign_objects = state.foreign;
  if (!state.running && state.only_tell) report.strays = state.strays;
}

}  // namespace weft::mds
