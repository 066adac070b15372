#include "ganesha-fsal/server/admin_maintenance.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>

#include "ganesha-fsal/cluster/await.h"

namespace weft::mds {

std::string title(const ServerView& view) {
  return fmt::format("data server {} ({})", view.record.id, view.record.name);
}

std::string human_time(std::uint64_t seconds) {
  if (seconds < 120) return fmt::format("{} s", seconds);
  if (seconds < 7200) return fmt::format("{} min", seconds / 60);
  return fmt::format("{} h", seconds / 3600);
}

ServerName name_of(const ServerView& view) { return {view.record.id, view.record.name}; }

namespace {

MaintenanceReport about(std::string action, const ServerView& view) {
  MaintenanceReport report{.action = std::move(action)};
  report.server = name_of(view);
  return report;
}

Result<ServerView> find(MetadataServer& server, const std::string& whom) {
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

Result<> set_duty(MetadataServer& server, const ServerView& view, Duty duty) {
  auto set = server.cluster().registry().set_duty(view.record.id, duty);
  if (!set) return set;
  spdlog::info("event=duty_set ds={} duty={}", view.record.id, to_string(duty));
  server.repairs().mover().look_now();
  return {};
}

Result<std::size_t> objects_at(MetadataServer& server, std::uint32_t ds_id) {
  auto objects = server.names().objects_of(ds_id, std::nullopt, Mover::kMostCounted);
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
  auto report = about("drain", view);
  report.objects_left = *left;
  return report;
}

Result<MaintenanceReport> undrain(MetadataServer& server, const ServerView& view) {
  if (view.record.duty == Duty::kServing) {
    return fail(Errc::kInvalid, title(view) + " is not draining");
  }
  if (auto set = set_duty(server, view, Duty::kServing); !set) return pass(set);
  server.repairs().mover().give_up(view.record.id);
  return about("undrain", view);
}

Result<MaintenanceReport> remove(MetadataServer& server, const ServerView& view) {
  auto left = objects_at(server, view.record.id);
  if (!left) return pass(left);
  const bool gone = server.mirrors().reach(view.record.id) == Reach::kGone;
  if (!gone && (*left > 0 || view.record.duty == Duty::kServing)) {
    return fail(Errc::kInvalid,
                fmt::format("{} is here and {}: weft ds drain {}, and remove it when weft ds list "
                            "says that it is drained",
                            title(view),
                            *left > 0 ? fmt::format("has {} objects", *left) : "gets new files",
                            view.record.id));
  }
  if (auto set = set_duty(server, view, Duty::kRemoving); !set) return pass(set);
  auto report = about("remove", view);
  report.objects_left = *left;
  return report;
}

Result<MaintenanceReport> accept(MetadataServer& server, const ServerView& view) {
  auto taken = server.cluster().registry().take_as_is(view.record.id);
  if (!taken) return fail(taken.error().code, title(view) + ": " + taken.error().text);
  spdlog::warn("event=store_taken_as_is ds={}", view.record.id);
  server.repairs().readmission().look_now();
  return about("accept", view);
}

// `whom`: the data server, a space, and the target's number in its group.
Result<MaintenanceReport> give_up_target(MetadataServer& server, const std::string& whom) {
  const std::size_t space = whom.rfind(' ');
  std::uint32_t target = 0;
  const char* const end = whom.data() + whom.size();
  const auto parsed = space == std::string::npos
                          ? std::from_chars(end, end, target)
                          : std::from_chars(whom.data() + space + 1, end, target);
  if (parsed.ec != std::errc() || parsed.ptr != end) {
    return fail(Errc::kInvalid, "a data server and the number of a target of its parity group");
  }
  auto view = find(server, whom.substr(0, space));
  if (!view) return pass(view);
  if (!view->connected) return fail(Errc::kInvalid, title(*view) + " is not connected");
  auto told = server.cluster().ask(view->record.id, rpc::control::GiveUp{.target = target});
  if (!told) return fail(told.error().code, title(*view) + ": " + told.error().text);
  spdlog::warn("event=target_given_up ds={} target={}", view->record.id, target);
  auto report = about("give-up", *view);
  report.target = target;
  return report;
}

// What an administrator should know of a parity group beside its scrub.
void warn_of_group(const ServerView& view, std::vector<std::string>& warnings) {
  const rpc::control::GroupScrub& group = view.last.scrub;
  if (group.awaited != 0) {
    std::string targets;
    for (unsigned target = 0; target < 32; ++target) {
      if ((group.awaited >> target & 1) == 0) continue;
      targets += (targets.empty() ? "" : ", ") + std::to_string(target);
    }
    warnings.push_back(fmt::format(
        "the parity group of {} waits for target {} and serves nothing: start it{}", title(view),
        targets,
        group.may_give_up ? fmt::format("; if it is lost for ever: weft ds give-up {} {}",
                                        view.record.id, targets)
                          : ""));
  }
  if (group.given_up > 0) {
    warnings.push_back(fmt::format(
        "the parity group of {} has given up {} blocks with a target that was lost; those that "
        "were not written anew cannot be read (event=parity_given_up in its log)",
        title(view), group.given_up));
  }
}

Result<double> to_part(const std::string& percent) {
  unsigned value = 0;
  const char* const end = percent.data() + percent.size();
  const auto parsed = std::from_chars(percent.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || value < 1 || value > 50) {
    return fail(Errc::kInvalid, "percent: 1 to 50");
  }
  return value / 100.0;
}

std::string human_mib(std::uint64_t bytes) { return fmt::format("{} MiB", bytes >> 20); }

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

Result<MaintenanceReport> rebalance(MetadataServer& server, const std::string& what,
                                    const std::string& percent) {
  if (what == "rebalance-stop") {
    MaintenanceReport report{.action = what};
    report.was_running = server.repairs().mover().end_rebalance();
    return report;
  }
  auto within = to_part(percent);
  if (!within) return pass(within);
  if (what == "rebalance-plan") return plan(server, *within);
  if (auto begun = server.repairs().mover().begin_rebalance(*within); !begun) return pass(begun);
  return MaintenanceReport{.action = what};
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

std::string group_text(const ServerView& view) {
  const rpc::control::GroupScrub& scrub = view.last.scrub;
  std::string text = title(view) + ": ";
  if (scrub.running) {
    text += fmt::format("{} %{}", scrub.permille / 10, scrub.only_tell ? ", changing nothing" : "");
    if (scrub.waiting) {
      text += ", waiting for the group to be whole";
    } else if (scrub.remaining_s > 0) {
      text += fmt::format(", {} left", human_time(scrub.remaining_s));
    }
  } else if (scrub.bytes == 0 && scrub.rounds == 0) {
    return text + "not gone through yet";
  } else {
    text += fmt::format("ended {} ago", human_time(scrub.ended_s_ago));
  }
  return text + fmt::format("; {} read, {} wrong{}, {} lost, {} could not be looked at",
                            human_mib(scrub.bytes), scrub.mended,
                            scrub.only_tell ? "" : " and written anew", scrub.lost, scrub.failed);
}

}  // namespace

Result<MaintenanceReport> maintain(MetadataServer& server, const std::string& what,
                                   const std::string& whom) {
  if (what == "scrub-stop") {
    MaintenanceReport report{.action = what};
    report.was_running = server.repairs().scrubber().end();
    scrub_groups(server, {.start = false}, report);
    return report;
  }
  if (what.starts_with("rebalance")) return rebalance(server, what, whom);
  if (what == "give-up") return give_up_target(server, whom);
  auto view = find(server, whom);
  if (!view) return pass(view);
  if (what == "drain") return drain(server, *view);
  if (what == "undrain") return undrain(server, *view);
  if (what == "remove") return remove(server, *view);
  if (what == "accept") return accept(server, *view);
  return fail(Errc::kNotSupported, "no such maintenance: " + what);
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
  auto view = find(server, from);
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
  auto report = about("scrub-resolve", *view);
  report.fileid = file;
  return report;
}

ScrubReport scrub_report(MetadataServer& server, std::vector<std::string>& warnings) {
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
                     .groups = {}};
  std::size_t open = state.unlisted;
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
    if (!finding.mended) ++open;
    report.findings.push_back(std::move(found));
  }
  if (open > 0) {
    warnings.push_back(fmt::format(
        "{} copies of files differ, and nothing was changed. Look at both, and say which "
        "is right: weft scrub status, weft scrub resolve",
        open));
  }
  for (const ServerView& view : server.cluster().registry().list()) {
    if (!view.connected || !view.last.scrub.group) continue;
    report.groups.push_back(group_text(view));
    warn_of_group(view, warnings);
    if (view.last.scrub.lost == 0) continue;
    warnings.push_back(fmt::format(
        "the parity group of {} has {} blocks that cannot be computed (weft scrub status)",
        title(view), view.last.scrub.lost));
  }
  if (const auto mended = std::ranges::count(state.findings, true, &ScrubFinding::mended)) {
    warnings.push_back(
        fmt::format("scrubs found {} copies that were damaged, and made them equal to the others "
                    "(weft scrub status)",
                    mended));
  }
  return report;
}

std::string rebalance_text(MetadataServer& server) {
  const Mover::RebalanceState state = server.repairs().mover().rebalance();
  if (state.within == 0) return "";
  return fmt::format("{}, {} objects, {} moved or being moved, {:.1f} % apart, {:.1f} % before",
                     state.running ? "running" : "ended", state.objects, human_mib(state.bytes),
                     state.spread * 100, state.spread_before * 100);
}

Result<> add_leaving(MetadataServer& server, std::vector<DataServerReport>& reports) {
  auto leaving = server.repairs().mover().leaving();
  if (!leaving) return pass(leaving);
  for (const Mover::Leaving& from : *leaving) {
    const auto at = std::ranges::find(reports, from.ds_id, &DataServerReport::id);
    if (at == reports.end()) continue;
    if (at->duty == to_string(Duty::kServing)) at->duty = "replacing";
    if (at->duty == to_string(Duty::kDraining) && from.drained) at->duty = "drained";
    at->objects_left = from.left;
    at->objects_moved = from.moved;
    at->moved_bytes = from.moved_bytes;
    at->move_remaining_ms = static_cast<std::uint64_t>(from.remaining.count());
    for (const auto& [why, count] : from.stuck) {
      at->stuck.push_back(fmt::format("{} objects: {}", count, why));
    }
  }
  return {};
}

std::string moving_text(MetadataServer& server, FileId file) {
  const auto move = server.names().move_of(file);
  if (!move || !*move) return "";
  if ((*move)->stage == MoveStage::kFilling) {
    return fmt::format("data server {} is being filled to take the place of {}", (*move)->to,
                       (*move)->from);
  }
  return fmt::format("data server {} has left; its object there is to be removed", (*move)->from);
}

}  // namespace weft::mds
