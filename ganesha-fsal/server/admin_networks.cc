#include "ganesha-fsal/server/admin_networks.h"

namespace weft::mds {

std::vector<NetworkReport> networks_report(const ServerRecord& record) {
  std::vector<NetworkReport> reports;
  for (const layout::ClientNetwork& network : record.networks) {
    NetworkReport& report = reports.emplace_back();
    report.name = network.name;
    for (const auto& address : network.addresses) report.addresses.push_back(to_string(address));
    for (const auto& range : network.clients) report.clients.push_back(to_string(range));
  }
  return reports;
}

std::vector<ServerName> no_way(const Registry& registry, std::string_view address,
                               std::span<const std::uint32_t> ds_ids) {
  const auto client = layout::make_address(address, 0);
  std::vector<ServerName> servers;
  if (!client) return servers;
  for (const std::uint32_t ds_id : ds_ids) {
    if (registry.is_for(ds_id, *client)) continue;
    const auto view = registry.find(ds_id);
    if (view) servers.push_back({ds_id, view->record.name});
  }
  return servers;
}

std::vector<NoWayReport> without_way(const Registry& registry,
                                     const std::map<ClientId, NfsClient>& clients,
                                     std::span<const std::uint32_t> ds_ids) {
  std::vector<NoWayReport> reports;
  for (const auto& [id, client] : clients) {
    auto servers = no_way(registry, client.address, ds_ids);
    if (!servers.empty()) reports.push_back({to_string(client), std::move(servers)});
  }
  return reports;
}

}  // namespace weft::mds
