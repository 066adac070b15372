#include "ganesha-fsal/server/admin_keys.h"

#include <spdlog/fmt/fmt.h>

#include "ganesha-fsal/files/in_parallel.h"
#include "ganesha-fsal/server/admin_maintenance.h"

namespace weft::mds {
namespace {

constexpr std::size_t kAtOnce = 16;

std::vector<std::string> names_of(const std::vector<std::uint64_t>& fingerprints) {
  std::vector<std::string> names;
  for (const std::uint64_t key : fingerprints) names.push_back(fmt::format("{:016x}", key));
  return names;
}

ServerKeysReport ask(MetadataServer& server, const ServerView& view) {
  ServerKeysReport report{.server = name_of(view), .keys = {}, .why = {}};
  if (!view.connected) {
    report.why = "it is not connected";
    return report;
  }
  const auto held = server.cluster().ask(view.record.id, control::GetKeys{});
  if (held) {
    report.keys = names_of(held->fingerprints);
  } else {
    report.why = held.error().describe();
  }
  return report;
}

// Data servers that do not answer cost their deadline once, not one after the other.
KeysReport keys(MetadataServer& server) {
  const std::vector<ServerView> data_servers = server.cluster().registry().list();
  KeysReport report;
  report.servers.resize(1 + data_servers.size());
  report.servers.front().keys = names_of(server.keys().now().fingerprints);
  in_parallel(data_servers.size(), kAtOnce,
              [&](std::size_t at) { report.servers[1 + at] = ask(server, data_servers[at]); });
  return report;
}

}  // namespace

void add_keys(MetadataServer& server, admin::Table& table) {
  table.on<admin::GetKeys>([&server](auto&) { return keys(server); });
}

}  // namespace weft::mds
