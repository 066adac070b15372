#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "ganesha-fsal/admin/client.h"
#include "tools/weft/commands.h"
#include "tools/weft/output.h"
#include "tools/weft/probe.h"
#include "tools/weft/proc.h"
#include "tools/weft/report.h"
#include "tools/weft/verify.h"

namespace weft::cli {
namespace {

// Data servers tell their counters with each heartbeat, once a second.
constexpr auto kHeartbeatsArrive = std::chrono::milliseconds(2500);

// What the metadata server counts, if its socket is on this machine.
std::optional<mds::SystemReport> server_snapshot(const std::string& socket) {
  auto system = mds::admin::Client(socket).ask(mds::admin::GetStatus{});
  if (!system) return std::nullopt;
  return std::move(*system);
}

// Of the client that the mount is, by the address it told the server.
std::vector<mds::ServerName> no_way(const std::string& socket, const MountStats& mount) {
  const auto report = mds::admin::Client(socket).ask(mds::admin::GetClients{});
  if (!report) return {};
  const auto client =
      std::ranges::find(report->clients, mount.option("clientaddr"), &mds::ClientReport::address);
  return client == report->clients.end() ? std::vector<mds::ServerName>{} : client->no_way;
}

Result<MountStats> client_snapshot(const std::string& path) {
  auto mounts = read_mountstats();
  if (!mounts) return pass(mounts);
  const MountStats* mount = mount_of(*mounts, path);
  if (mount == nullptr) return fail(Errc::kWrongType, path + " is not on an NFS mount");
  return *mount;
}

// Counters from nothing: the judgement is then of the mount's whole life.
MountStats without_counters(MountStats mount) {
  mount.ops.clear();
  mount.pnfs_reads = 0;
  mount.pnfs_writes = 0;
  return mount;
}

Result<Observation> observe(const Settings& settings, const VerifyOptions& options,
                            const std::string& path) {
  Observation seen;
  auto before = client_snapshot(path);
  if (!before) return pass(before);
  seen.driver_loaded = layout_driver_loaded();
  if (options.look_only) {
    seen.after = *before;
    seen.before = without_counters(std::move(*before));
    seen.server_after = server_snapshot(settings.socket);
    return seen;
  }
  seen.before = std::move(*before);
  seen.server_before = server_snapshot(settings.socket);
  if (auto done = probe(path, options.probe_bytes); !done) return pass(done);
  if (seen.server_before) std::this_thread::sleep_for(kHeartbeatsArrive);
  auto after = client_snapshot(path);
  if (!after) return pass(after);
  seen.after = std::move(*after);
  seen.server_after = server_snapshot(settings.socket);
  if (!seen.server_before) seen.server_after.reset();
  return seen;
}

}  // namespace

int verify_command(const Settings& settings, const VerifyOptions& options) {
  const std::string path = resolved(options.mount);
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    return complain(options.mount + " is no folder");
  }
  auto seen = observe(settings, options, path);
  if (!seen) return complain(seen.error().describe());
  if (seen->server_after) seen->no_way = no_way(settings.socket, seen->after);
  const Judgement judgement = judge(*seen);
  settings.json ? print(verify_json(options.mount, judgement))
                : print(verify_text(options.mount, judgement));
  switch (judgement.verdict) {
    case Verdict::kPnfs: return kExitGood;
    case Verdict::kUnknown: return kExitFailed;
    default: return kExitBad;
  }
}

}  // namespace weft::cli
