// What an administrator should look at, and what to do about it.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "tools/weft/background_text.h"
#include "tools/weft/report.h"
#include "tools/weft/table.h"

namespace weft::cli {
namespace {

using mds::DataServerReport;
using mds::DsState;

void repair_problems(const DataServerReport& server, const std::string& name,
                     std::vector<std::string>& out) {
  if (server.stale_objects > 0) {
    out.push_back(fmt::format("{} lacks writes of {} files: their copies there are not read.", name,
                              server.stale_objects));
  }
  if (!server.repair_waits.empty()) {
    out.push_back(
        fmt::format("{} waits with its repair: {}.", name, printable(server.repair_waits)));
  }
}

void data_server_problems(const DataServerReport& server, std::vector<std::string>& out) {
  const std::string name = fmt::format("Data server {} (id {})", server.name, server.id);
  switch (server.state) {
    case DsState::kUp: break;
    case DsState::kSuspect:
      out.push_back(fmt::format("{} is suspect: its last heartbeat came {} ago.", name,
                                human_duration(server.heartbeat_age_ms)));
      break;
    case DsState::kDown:
      out.push_back(fmt::format(
          "{} is down: its last heartbeat came {} ago. Files with a stripe on it cannot be read or "
          "written there until it is back; other files are not touched by this. Start weft-ds on "
          "its machine.",
          name, human_duration(server.heartbeat_age_ms)));
      break;
    case DsState::kUnknown:
      out.push_back(name +
                    " has not been heard of since the metadata server started. Files with a stripe "
                    "on it cannot be read or written until it registers.");
      break;
  }
  if (!server.trouble.empty()) {
    out.push_back(fmt::format(
        "{} has stopped serving: {}. Files with copies go on at the others, what has its only copy "
        "there waits. It serves again by itself when its store is there.",
        name, printable(server.trouble)));
  }
  if (!server.not_accepted.empty()) {
    out.push_back(fmt::format("{} is not accepted: {}.", name, printable(server.not_accepted)));
  }
  if (!server.duty.empty() && server.duty != "serving" && server.duty != "drained") {
    out.push_back(fmt::format("{} is {}: {} objects left (weft ds list).", name,
                              printable(server.duty), human_count(server.objects_left)));
  }
  for (const mds::StuckReport& stuck : server.stuck) {
    out.push_back(fmt::format("{} cannot be left: {}.", name, printable(stuck_text(stuck))));
  }
  if (server.capacity_bytes != 0 && server.free_bytes < server.capacity_bytes / 20) {
    out.push_back(fmt::format("{} is nearly full: {} of {} are free.", name,
                              human_bytes(server.free_bytes), human_bytes(server.capacity_bytes)));
  }
  repair_problems(server, name, out);
}

void store_problems(const mds::StoreReport& store, std::vector<std::string>& out) {
  if (store.failed) {
    out.push_back(fmt::format("The metadata store has failed, and ganesha.nfsd ends: {}.",
                              printable(store.failure)));
  }
  if (store.full) {
    out.push_back(fmt::format(
        "The metadata store is full: {} MiB of its file system are free, and {} MiB are to stay "
        "so. Files can be removed, truncated and read, and none made, until there is more.",
        store.free_bytes >> 20, store.floor_bytes >> 20));
  }
}

void stray_problems(const mds::StatusReport& status, std::vector<std::string>& out) {
  if (status.foreign_objects > 0) {
    out.push_back(fmt::format(
        "Data servers have {} objects of files that were never made here: either this metadata "
        "store is older than they are, or they are another system's (weft audit status).",
        status.foreign_objects));
  }
  if (status.strays > 0) {
    out.push_back(fmt::format(
        "Data servers have {} objects that no file needs: weft audit start removes them.",
        status.strays));
  }
}

void refused_problems(const mds::SystemReport& system, std::vector<std::string>& out) {
  for (const mds::RefusedReport& refused : system.status.refused) {
    const std::string when =
        fmt::format("{} times, the last {} ago", refused.times, human_duration(refused.age_ms));
    if (refused.name.empty()) {
      out.push_back(
          fmt::format("Somebody at {} connects as a data server and does not register ({}): {}. If "
                      "that is one, "
                      "compare its key file and its version with this server's.",
                      printable(refused.address), when, printable(refused.why)));
      continue;
    }
    // Of one that is known it is said with its id.
    if (std::ranges::any_of(system.data_servers, [&](const DataServerReport& server) {
          return server.name == refused.name && !server.not_accepted.empty();
        })) {
      continue;
    }
    out.push_back(fmt::format("A data server {} at {} is refused ({}): {}.",
                              printable(refused.name), printable(refused.address), when,
                              printable(refused.why)));
  }
}

}  // namespace

std::vector<std::string> problems(const mds::SystemReport& system) {
  std::vector<std::string> out;
  if (system.data_servers.empty() && system.status.refused.empty()) {
    out.push_back(
        "No data server has registered: clients can make files and folders but store no data. "
        "Start weft-ds with this server's control address and key file.");
  }
  for (const DataServerReport& server : system.data_servers) data_server_problems(server, out);
  const mds::StatusReport& status = system.status;
  if (status.oldest_recall_ms > 5000) {
    out.push_back(fmt::format(
        "{} layout recalls have no answer, the oldest for {}. A client that does not answer is "
        "fenced when the recall's time is over.",
        status.recalls_pending, human_duration(status.oldest_recall_ms)));
  }
  if (status.layout_errors > 0) {
    out.push_back(fmt::format("Clients reported {} errors at data servers (LAYOUTERROR).",
                              status.layout_errors));
  }
  refused_problems(system, out);
  store_problems(status.store, out);
  scrub_problems(status.scrub, out);
  stray_problems(status, out);
  out.insert(out.end(), status.warnings.begin(), status.warnings.end());
  return out;
}

}  // namespace weft::cli
