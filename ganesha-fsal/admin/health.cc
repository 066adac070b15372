#include "ganesha-fsal/admin/health.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "ganesha-fsal/admin/words.h"

namespace weft::mds {
namespace {

constexpr std::size_t kLongestName = 50;  // columns, in a sentence

constexpr std::uint64_t kErrorsToldMs = 15 * 60 * 1000;

constexpr HealthCode kCodes[] = {
    {"NO_DATA_SERVERS", "no data server has registered"},
    {"DS_SUSPECT", "a data server's heartbeat is overdue"},
    {"DS_DOWN", "a data server is down"},
    {"DS_UNKNOWN", "a data server has not come back since the metadata server started"},
    {"DS_NOT_SERVING", "a data server is there, and its store is not"},
    {"DS_NOT_ACCEPTED", "a data server that is known is not let in"},
    {"DS_REFUSED", "a data server is refused"},
    {"DS_STRANGER", "somebody without the cluster key connects as a data server"},
    {"DS_LEAVING", "a data server is being drained, removed or replaced", true},
    {"DS_STUCK", "objects cannot be moved off a data server"},
    {"DS_NEARLY_FULL", "a data server has less than 5 % of its space left"},
    {"COPIES_STALE", "copies missed writes"},
    {"REPAIR_WAITS", "a data server cannot repair its copies"},
    {"COPIES_DIFFER", "copies differ, and nothing says which is right"},
    {"COPIES_MENDED", "a scrub found damaged copies, and made them good", true},
    {"GROUP_DEGRADED", "a target of a parity group is out, or is being rebuilt"},
    {"GROUP_WAITS", "a parity group waits for a target"},
    {"BLOCKS_LOST", "a parity group has blocks that cannot be computed"},
    {"BLOCKS_GIVEN_UP", "blocks were lost with a target that was given up"},
    {"STORE_FAILED", "the metadata store has failed"},
    {"STORE_FULL", "the metadata store is full"},
    {"RECALLS_SLOW", "a client does not answer a recall"},
    {"LAYOUT_ERRORS", "clients reported errors at data servers in the last 15 minutes"},
    {"STRAYS", "objects that no file needs", true},
    {"FOREIGN_OBJECTS", "objects of files that were never made here"},
    {"RESTORED_DAMAGED", "files have lost bytes since the backup that was restored"},
    {"RESTORED_UNCHECKED", "files of the backup that was restored are still to be compared", true},
    {"PLACEMENT", "copies cannot be, or are not, in as many failure domains as they should"},
    {"DS_NAMESAKES", "data servers have one name, or tell clients one address"},
    {"CLIENTS_REFUSED", "new clients cannot be recorded, and are refused"},
    {"CLIENTS_WAIT", "there are as many clients, or sessions, as there may be"},
    {"LEASE_SHORT", "clients that are idle lose their leases"},
    {"GRACE_SHORT", "clients that are idle when the server restarts come too late"},
    {"WARNING", "something else, which the sentence says"},
};

void repair_problems(const DataServerReport& server, const std::string& name,
                     std::vector<Problem>& out) {
  if (server.stale_objects > 0) {
    out.push_back({"COPIES_STALE",
                   fmt::format("{} lacks writes of {} files: their copies there are not read until "
                               "they are repaired, which goes on by itself (weft ds list).",
                               name, server.stale_objects)});
  }
  if (!server.repair_waits.empty()) {
    out.push_back({"REPAIR_WAITS", fmt::format("{} waits with its repair: {}.", name,
                                               printable(server.repair_waits))});
  }
}

void data_server_problems(const DataServerReport& server, std::vector<Problem>& out) {
  const std::string name = fmt::format("Data server {} (id {})",
                                       shortened(printable(server.name), kLongestName), server.id);
  switch (server.state) {
    case DsState::kUp: break;
    case DsState::kSuspect:
      out.push_back({"DS_SUSPECT", fmt::format("{} is suspect: its last heartbeat came {} ago. It "
                                               "is up again soon, or down after 10 s.",
                                               name, human_duration(server.heartbeat_age_ms))});
      break;
    case DsState::kDown:
      out.push_back(
          {"DS_DOWN", fmt::format("{} is down: its last heartbeat came {} ago. Files with copies "
                                  "go on at the others; what has its only copy there waits. Start "
                                  "weft-ds on its machine.",
                                  name, human_duration(server.heartbeat_age_ms))});
      break;
    case DsState::kUnknown:
      out.push_back(
          {"DS_UNKNOWN",
           name + " has not been heard of since the metadata server started. Files with copies go "
                  "on at the others; what has its only copy there waits. Start weft-ds on its "
                  "machine."});
      break;
  }
  if (!server.trouble.empty()) {
    out.push_back({"DS_NOT_SERVING",
                   fmt::format("{} has stopped serving: {}. Files with copies go on at the others, "
                               "what has its only copy there waits. It serves again by itself when "
                               "its store is there.",
                               name, printable(server.trouble))});
  }
  if (!server.not_accepted.empty()) {
    out.push_back({"DS_NOT_ACCEPTED",
                   fmt::format("{} is not accepted: {}.", name, printable(server.not_accepted))});
  }
  if (!server.duty.empty() && server.duty != "serving" && server.duty != "drained") {
    out.push_back(
        {"DS_LEAVING", fmt::format("{} is {}: {} objects left (weft ds list).", name,
                                   printable(server.duty), human_count(server.objects_left))});
  }
  for (const StuckReport& stuck : server.stuck) {
    out.push_back({"DS_STUCK", fmt::format("{} cannot be left: {} objects: {}.", name,
                                           stuck.objects, printable(stuck.why))});
  }
  const bool here = server.state == DsState::kUp || server.state == DsState::kSuspect;
  if (here && server.capacity_bytes != 0 && server.free_bytes < server.capacity_bytes / 20) {
    out.push_back(
        {"DS_NEARLY_FULL",
         fmt::format("{} is nearly full: {} of {} are free. Remove files, add a data "
                     "server (weft token), or move files to others (weft ds rebalance).",
                     name, human_bytes(server.free_bytes), human_bytes(server.capacity_bytes))});
  }
  repair_problems(server, name, out);
}

void store_problems(const StoreReport& store, std::vector<Problem>& out) {
  if (store.failed) {
    out.push_back(
        {"STORE_FAILED", fmt::format("The metadata store has failed, and ganesha.nfsd ends: {}.",
                                     printable(store.failure))});
  }
  if (store.full) {
    out.push_back(
        {"STORE_FULL",
         fmt::format(
             "The metadata store is full: {} MiB of its file system are free, and {} MiB are kept "
             "free. No file can be made until there is more room: remove files, or what else is on "
             "that file system.",
             store.free_bytes >> 20, store.floor_bytes >> 20)});
  }
}

void stray_problems(const StatusReport& status, std::vector<Problem>& out) {
  if (status.foreign_objects > 0) {
    out.push_back(
        {"FOREIGN_OBJECTS",
         fmt::format(
             "Data servers have {} objects of files that were never made here: this metadata store "
             "is older than they are, or they are another system's (weft audit status). Find out "
             "which before files are made.",
             status.foreign_objects)});
  }
  if (status.strays > 0 && status.restored) {
    out.push_back(
        {"STRAYS", fmt::format("Data servers have {} objects that no file of the restored store "
                               "needs. They may be all that is left of files made since the "
                               "backup: weft audit status lists them. Look before they are removed "
                               "(docs/backup.md).",
                               status.strays)});
  } else if (status.strays > 0) {
    out.push_back(
        {"STRAYS", fmt::format("Data servers have {} objects that no file needs: weft audit start "
                               "removes them.",
                               status.strays)});
  }
}

void restored_problems(const StatusReport& status, std::vector<Problem>& out) {
  if (status.restored_damaged > 0) {
    out.push_back({"RESTORED_DAMAGED",
                   fmt::format("{} files have lost bytes since the backup that the metadata store "
                               "came back from, and answer I/O errors (weft restored status).",
                               status.restored_damaged)});
  }
  if (status.restored_unchecked > 0) {
    out.push_back({"RESTORED_UNCHECKED",
                   fmt::format("{} files of the backup that the metadata store came back from are "
                               "still to be compared with their objects.",
                               status.restored_unchecked)});
  }
}

std::string targets_of(std::uint32_t awaited) {
  std::string targets;
  for (unsigned target = 0; target < 32; ++target) {
    if ((awaited >> target & 1) == 0) continue;
    targets += (targets.empty() ? "" : ", ") + std::to_string(target);
  }
  return targets;
}

// Until it is whole again the group does without one target, and not without two.
void group_state_problems(const GroupReport& group, const std::string& server,
                          std::vector<Problem>& out) {
  using rpc::control::GroupState;
  if (group.state == GroupState::kDegraded) {
    out.push_back(
        {"GROUP_DEGRADED",
         fmt::format("the parity group of {} is degraded: a target is out, and with another one "
                     "the group stops serving. Start the target, or replace it (weft ds list)",
                     server)});
  } else if (group.state == GroupState::kRebuilding) {
    out.push_back(
        {"GROUP_DEGRADED",
         fmt::format("the parity group of {} rebuilds a target, {} % so far. With another target "
                     "out the group stops serving. It goes on by itself",
                     server, group.rebuilt_permille / 10)});
  }
}

// A metadata server of before has only the words for people.
void group_words_problems(const SystemReport& system, std::vector<Problem>& out) {
  for (const DataServerReport& server : system.data_servers) {
    if (server.state != DsState::kUp && server.state != DsState::kSuspect) continue;
    const bool told =
        std::ranges::any_of(system.status.scrub.groups, [&server](const GroupReport& group) {
          return group.server.id == server.id && group.state != rpc::control::GroupState::kNone;
        });
    if (told) continue;
    const auto said = rpc::control::read_group_words(server.store);
    group_state_problems({.state = said.state, .rebuilt_permille = said.rebuilt_permille},
                         fmt::format("data server {} ({})", server.id, printable(server.name)),
                         out);
  }
}

void group_problems(const GroupReport& group, std::vector<Problem>& out) {
  const std::string server = fmt::format("data server {} ({})", group.server.id, group.server.name);
  group_state_problems(group, server, out);
  if (group.awaited != 0) {
    const std::string targets = targets_of(group.awaited);
    out.push_back(
        {"GROUP_WAITS",
         fmt::format("the parity group of {} waits for target {} and serves nothing: start it{}",
                     server, targets,
                     group.may_give_up
                         ? fmt::format("; if it is lost for ever: weft ds give-up {} {}",
                                       group.server.id, targets)
                         : "")});
  }
  if (group.given_up > 0) {
    out.push_back(
        {"BLOCKS_GIVEN_UP",
         fmt::format("the parity group of {} has given up {} blocks with a target that was lost; "
                     "those that "
                     "were not written anew cannot be read (event=parity_given_up in its log)",
                     server, group.given_up)});
  }
  if (group.lost > 0) {
    out.push_back(
        {"BLOCKS_LOST",
         fmt::format(
             "the parity group of {} has {} blocks that cannot be computed (weft scrub status)",
             server, group.lost)});
  }
}

void scrub_problems(const ScrubReport& scrub, std::vector<Problem>& out) {
  const auto mended = std::ranges::count(scrub.findings, true, &ScrubFindingReport::mended);
  const std::uint64_t open =
      scrub.unlisted + scrub.findings.size() - static_cast<std::uint64_t>(mended);
  if (open > 0) {
    out.push_back(
        {"COPIES_DIFFER",
         fmt::format(
             "{} copies of files differ, and nothing was changed. Look at both, and say which "
             "is right: weft scrub status, weft scrub resolve",
             open)});
  }
  for (const GroupReport& group : scrub.groups) group_problems(group, out);
  if (mended > 0) {
    out.push_back(
        {"COPIES_MENDED",
         fmt::format("scrubs found {} copies that were damaged, and made them equal to the others "
                     "(weft scrub status)",
                     mended)});
  }
}

// They cannot be taken back: what came long ago is no problem any more.
void layout_error_problems(const StatusReport& status, std::vector<Problem>& out) {
  if (status.layout_errors == 0 || status.layout_error_age_ms >= kErrorsToldMs) return;
  out.push_back({"LAYOUT_ERRORS",
                 fmt::format("Clients reported {} errors at data servers, the last {} ago. weft "
                             "layout show FILE, and \"layout error\" in the metadata server's log, "
                             "say at which.",
                             status.layout_errors, human_duration(status.layout_error_age_ms))});
}

void refused_problems(const SystemReport& system, std::vector<Problem>& out) {
  for (const RefusedReport& refused : system.status.refused) {
    const std::string when =
        fmt::format("{} times, the last {} ago", refused.times, human_duration(refused.age_ms));
    if (refused.name.empty()) {
      out.push_back(
          {"DS_STRANGER",
           fmt::format(
               "Somebody at {} connects as a data server and does not register ({}): {}. If that "
               "is one, compare its key file and its version with this server's.",
               printable(refused.address), when, printable(refused.why))});
      continue;
    }
    // Of one that is known it is said with its id.
    if (std::ranges::any_of(system.data_servers, [&](const DataServerReport& server) {
          return server.name == refused.name && !server.not_accepted.empty();
        })) {
      continue;
    }
    out.push_back({"DS_REFUSED", fmt::format("A data server {} at {} is refused ({}): {}.",
                                             printable(refused.name), printable(refused.address),
                                             when, printable(refused.why))});
  }
}

// Of a newer metadata server it may be one that is not known here; an older one tells none.
std::string_view warning_code(const StatusReport& status, std::size_t number) {
  if (number >= status.warning_codes.size()) return "WARNING";
  const auto* const found =
      std::ranges::find(kCodes, status.warning_codes[number], &HealthCode::code);
  return found == std::end(kCodes) ? "WARNING" : found->code;
}

}  // namespace

std::span<const HealthCode> health_codes() { return kCodes; }

bool is_note(std::string_view code) {
  const auto* const found = std::ranges::find(kCodes, code, &HealthCode::code);
  return found != std::end(kCodes) && found->note;
}

std::vector<Problem> health(const SystemReport& system) {
  std::vector<Problem> out;
  if (system.data_servers.empty() && system.status.refused.empty()) {
    out.push_back(
        {"NO_DATA_SERVERS",
         "No data server has registered: clients can make files and folders but store no data. "
         "weft token prints what to type on a machine with disks."});
  }
  for (const DataServerReport& server : system.data_servers) data_server_problems(server, out);
  const StatusReport& status = system.status;
  if (status.oldest_recall_ms > 5000) {
    out.push_back({"RECALLS_SLOW",
                   fmt::format("{} layout recalls have no answer, the oldest for {}. weft clients "
                               "lists the slowest client first. One that does not answer within "
                               "Recall_Timeout is fenced.",
                               status.recalls_pending, human_duration(status.oldest_recall_ms))});
  }
  layout_error_problems(status, out);
  refused_problems(system, out);
  store_problems(status.store, out);
  group_words_problems(system, out);
  scrub_problems(status.scrub, out);
  stray_problems(status, out);
  restored_problems(status, out);
  for (std::size_t i = 0; i < status.warnings.size(); ++i) {
    out.push_back({warning_code(status, i), status.warnings[i]});
  }
  return out;
}

std::vector<std::string> problems(const SystemReport& system) {
  std::vector<std::string> out;
  for (Problem& problem : health(system)) out.push_back(std::move(problem.text));
  return out;
}

Json status_json(const SystemReport& system) {
  Json out = to_json(system);
  out["problems"] = problems(system);
  return out;
}

}  // namespace weft::mds
