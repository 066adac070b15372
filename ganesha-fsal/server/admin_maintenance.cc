#include "ganesha-fsal/server/admin_maintenance.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>

#include "ganesha-fsal/admin/words.h"
#include "ganesha-fsal/cluster/await.h"

namespace weft::mds {

std::string title(const ServerView& view) {
  return fmt::format("data server {} ({})", view.record.id, view.record.name);
}

ServerName name_of(const ServerView& view) { return {view.record.id, view.record.name}; }

namespace {

MaintenanceReport about(std::string action, const ServerView& view) {
  MaintenanceReport report{.action = std::move(action)};
  report.server = name_of(view);
  return report;
}

Result<> set_duty(MetadataServer& server, const ServerView& view, Duty duty) {
  auto set = server.cluster().registry().set_duty(view.record.id, duty);
  if (!set) return set;
  spdlog::info("event=duty_set ds={} duty={}", view.record.id, to_string(duty));
  server.repairs().mover().look_now();
  return {};
}

Result<std::size_t> objects_at(MetadataServer& server, std::uint32_t ds_id) {
  auto objects = server.names().objects_of(ds_id, std::nullopt, kMostObjectsCounted);
  if (!objects) return pass(objects);
  return objects->size();
}

Result<MaintenanceReport> drain(MetadataServer& server, const ServerView& view) {
  if (view.record.duty == Duty::kRemoving) {
    return fail(Errc::kInvalid, title(view) + " is being removed already");
  }
  auto left = objects_at(server, view.record.id);
  if (!left) return pass(left);
  if (auto set = set_duty(server, view, Duty::kDraining); !set) return pass(set);
  auto report = about(admin::Drain::kName, view);
  report.objects_left = *left;
  return report;
}

Result<MaintenanceReport> undrain(MetadataServer& server, const ServerView& view) {
  if (view.record.duty == Duty::kServing) {
    return fail(Errc::kInvalid, title(view) + " is not draining");
  }
  if (auto set = set_duty(server, view, Duty::kServing); !set) return pass(set);
  server.repairs().mover().give_up(view.record.id);
  return about(admin::Undrain::kName, view);
}

Result<MaintenanceReport> remove(MetadataServer& server, const ServerView& view) {
  auto left = objects_at(server, view.record.id);
  if (!left) return pass(left);
  const bool gone = server.mirrors().reach(view.record.id) == Reach::kGone;
  if (!gone && (*left > 0 || view.record.duty == Duty::kServing)) {
    return fail(
        Errc::kInvalid,
        fmt::format("{} is here and {}: weft ds drain {}, and remove it when weft ds list "
                    "says that it is drained",
                    title(view), *left > 0 ? "has " + counted_objects(*left) : "gets new files",
                    view.record.id));
  }
  if (auto set = set_duty(server, view, Duty::kRemoving); !set) return pass(set);
  auto report = about(admin::Remove::kName, view);
  report.objects_left = *left;
  return report;
}

Result<MaintenanceReport> accept(MetadataServer& server, const ServerView& view) {
  auto taken = server.cluster().registry().take_as_is(view.record.id);
  if (!taken) return fail(taken.error().code, title(view) + ": " + taken.error().text);
  spdlog::warn("event=store_taken_as_is ds={}", view.record.id);
  server.repairs().readmission().look_now();
  return about(admin::Accept::kName, view);
}

Result<MaintenanceReport> give_up(MetadataServer& server, const admin::GiveUp& request) {
  auto view = find_server(server, request.server);
  if (!view) return pass(view);
  if (!view->connected) return fail(Errc::kInvalid, title(*view) + " is not connected");
  auto told = server.cluster().ask(view->record.id, rpc::control::GiveUp{.target = request.target});
  if (!told) return fail(told.error().code, title(*view) + ": " + told.error().text);
  spdlog::warn("event=target_given_up ds={} target={}", view->record.id, request.target);
  auto report = about(request.kName, *view);
  report.target = request.target;
  return report;
}

Result<MaintenanceReport> plan(MetadataServer& server, double within) {
  auto plan = server.repairs().mover().plan(within);
  if (!plan) return pass(plan);
  MaintenanceReport report{.action = "rebalance-plan"};
  report.plan = {plan->spread_before, plan->spread_after, plan->whole, {}};
  for (const auto& [ends, moves] : plan->moves) {
    report.plan->moves.push_back({ends.first, ends.second, moves.objects, moves.bytes});
  }
  return report;
}

Result<MaintenanceReport> rebalance(MetadataServer& server, const admin::Rebalance& request) {
  if (request.percent < 1 || request.percent > 50) return fail(Errc::kInvalid, "percent: 1 to 50");
  const double within = request.percent / 100.0;
  if (request.only_tell) return plan(server, within);
  if (auto begun = server.repairs().mover().begin_rebalance(within); !begun) return pass(begun);
  return MaintenanceReport{.action = admin::Rebalance::kName};
}

MaintenanceReport stop_rebalance(MetadataServer& server) {
  MaintenanceReport report{.action = admin::StopRebalance::kName};
  report.was_running = server.repairs().mover().end_rebalance();
  return report;
}

// Tells the data servers over parity groups, and what they answered.
void scrub_groups(MetadataServer& server, const rpc::control::Scrub& request,
                  MaintenanceReport& report) {
  for (const ServerView& view : server.cluster().registry().list()) {
    if (!view.connected || !view.last.scrub.group) continue;
    auto told = server.cluster().ask(view.record.id, request);
    report.groups.push_back({name_of(view), told ? "" : told.error().describe()});
  }
}

MaintenanceReport stop_scrub(MetadataServer& server) {
  MaintenanceReport report{.action = admin::StopScrub::kName};
  report.was_running = server.repairs().scrubber().end();
  scrub_groups(server, {.start = false}, report);
  return report;
}

GroupReport group_report(const ServerView& view) {
  const control::GroupScrub& group = view.last.scrub;
  return {.server = name_of(view),
          .running = group.running,
          .only_tell = group.only_tell,
          .waiting = group.waiting,
          .permille = group.permille,
          .remaining_s = group.remaining_s,
          .bytes = group.bytes,
          .wrong = group.mended,
          .lost = group.lost,
          .failed = group.failed,
          .rounds = group.rounds,
          .ended_s_ago = group.ended_s_ago,
          .awaited = group.awaited,
          .may_give_up = group.may_give_up,
          .given_up = group.given_up,
          .state = view.group.state,
          .rebuilt_permille = view.group.rebuilt_permille};
}

// What is done with one data server.
template <admin::Request R>
void add(MetadataServer& server, admin::Table& table,
         Result<MaintenanceReport> (*act)(MetadataServer&, const ServerView&)) {
  table.on<R>([&server, act](const R& request) -> Result<MaintenanceReport> {
    auto view = find_server(server, request.server);
    if (!view) return pass(view);
    return act(server, *view);
  });
}

}  // namespace

Result<ServerView> find_server(MetadataServer& server, const std::string& whom) {
  std::uint32_t id = 0;
  const char* const end = whom.data() + whom.size();
  const auto parsed = std::from_chars(whom.data(), end, id);
  const bool number = parsed.ec == std::errc() && parsed.ptr == end;
  std::vector<ServerView> named;
  for (ServerView& view : server.cluster().registry().list()) {
    if (number ? view.record.id == id : view.record.name == whom) named.push_back(std::move(view));
  }
  if (named.empty()) return fail(Errc::kNotFound, "no data server " + whom + " (weft ds list)");
  if (named.size() > 1) {
    return fail(Errc::kInvalid, "several data servers are called " + whom + ": give the id");
  }
  return std::move(named.front());
}

void add_maintenance(MetadataServer& server, admin::Table& table) {
  add<admin::Drain>(server, table, drain);
  add<admin::Undrain>(server, table, undrain);
  add<admin::Remove>(server, table, remove);
  add<admin::Accept>(server, table, accept);
  table.on<admin::GiveUp>(
      [&server](const admin::GiveUp& request) { return give_up(server, request); });
  table.on<admin::Rebalance>(
      [&server](const admin::Rebalance& request) { return rebalance(server, request); });
  table.on<admin::StopRebalance>([&server](auto&) { return stop_rebalance(server); });
  table.on<admin::StopScrub>([&server](auto&) { return stop_scrub(server); });
}

Result<MaintenanceReport> begin_scrub(MetadataServer& server, std::optional<FileId> file,
                                      bool only_tell) {
  if (auto begun = server.repairs().scrubber().begin(file, only_tell); !begun) return pass(begun);
  MaintenanceReport report{.action = only_tell ? "scrub-check" : "scrub"};
  report.fileid = file;
  if (!file) scrub_groups(server, {.start = true, .only_tell = only_tell}, report);
  return report;
}

Result<MaintenanceReport> resolve_scrub(MetadataServer& server, FileId file,
                                        const std::string& from) {
  auto view = find_server(server, from);
  if (!view) return pass(view);
  auto map = server.names().layout(file);
  if (!map) return pass(map);
  bool has_current = false;
  if (*map) {
    for (const layout::Copy& copy : (*map)->copies) {
      const auto at = std::ranges::find(copy.ds_ids, view->record.id);
      if (at == copy.ds_ids.end()) continue;
      const auto stripe = static_cast<std::size_t>(at - copy.ds_ids.begin());
      has_current = has_current || copy.state_of(stripe) == layout::CopyState::kCurrent;
    }
  }
  if (!has_current || (*map)->copies.size() < 2) {
    return fail(Errc::kInvalid, title(*view) +
                                    " has no current copy of this file beside another's "
                                    "(weft layout show)");
  }
  if (auto begun = server.repairs().scrubber().resolve(file, view->record.id); !begun)
    return pass(begun);
  spdlog::warn("event=scrub_resolve file={:x} from={}", file, view->record.id);
  auto report = about(admin::ResolveScrub::kName, *view);
  report.fileid = file;
  return report;
}

ScrubReport scrub_report(MetadataServer& server) {
  const ScrubState state = server.repairs().scrubber().state();
  ScrubReport report{.running = state.running,
                     .only_tell = state.only_tell,
                     .files = state.files,
                     .written = state.written,
                     .failed = state.failed,
                     .compared_bytes = state.compared_bytes,
                     .differing = state.differing,
                     .mended = state.mended,
                     .rounds = state.rounds,
                     .age_ms = static_cast<std::uint64_t>(state.age.count()),
                     .findings = {},
                     .unlisted = state.unlisted,
                     .resolved = state.resolved,
                     .groups = {},
                     .crowded = 0,
                     .crowded_fileids = {}};
  for (const ScrubFinding& finding : state.findings) {
    ScrubFindingReport found{.fileid = finding.file,
                             .stripe = finding.stripe,
                             .ds_id = finding.ds_id,
                             .source = finding.source,
                             .differing_bytes = finding.differing_bytes,
                             .extents = {},
                             .majority = finding.majority,
                             .mended = finding.mended};
    for (const auto& extent : finding.extents) {
      found.extents.push_back({extent.offset, extent.length});
    }
    report.findings.push_back(std::move(found));
  }
  CrowdedFiles crowded = server.repairs().scrubber().crowded();
  report.crowded = crowded.count;
  report.crowded_fileids = std::move(crowded.first);
  for (const ServerView& view : server.cluster().registry().list()) {
    if (view.connected && view.last.scrub.group) report.groups.push_back(group_report(view));
  }
  return report;
}

std::optional<RebalanceReport> rebalance_report(MetadataServer& server) {
  const Mover::RebalanceState state = server.repairs().mover().rebalance();
  if (state.within == 0) return std::nullopt;
  return RebalanceReport{.running = state.running,
                         .objects = state.objects,
                         .bytes = state.bytes,
                         .spread = state.spread,
                         .spread_before = state.spread_before};
}

void add_leaving(MetadataServer& server, std::vector<DataServerReport>& reports) {
  for (const Mover::Leaving& from : server.repairs().mover().leaving()) {
    const auto at = std::ranges::find(reports, from.ds_id, &DataServerReport::id);
    if (at == reports.end()) continue;
    if (at->duty == to_string(Duty::kServing)) at->duty = "replacing";
    if (at->duty == to_string(Duty::kDraining) && from.drained) at->duty = "drained";
    at->objects_left = from.left;
    at->objects_moved = from.moved;
    at->moved_bytes = from.moved_bytes;
    at->move_remaining_ms = static_cast<std::uint64_t>(from.remaining.count());
    for (const auto& [why, stuck] : from.stuck) {
      at->stuck.push_back({stuck.objects, why, stuck.first});
    }
  }
}

std::optional<MovingReport> moving_report(MetadataServer& server, FileId file) {
  const auto move = server.names().move_of(file);
  if (!move || !*move) return std::nullopt;
  return MovingReport{
      .from = (*move)->from, .to = (*move)->to, .left = (*move)->stage != MoveStage::kFilling};
}

}  // namespace weft::mds
