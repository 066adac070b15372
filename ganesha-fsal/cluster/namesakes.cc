#include "ganesha-fsal/cluster/namesakes.h"

#include <spdlog/fmt/fmt.h>

#include <map>
#include <set>

namespace weft::mds {
namespace {

// Those that it has told, whichever of its networks a client is in, by TCP or RDMA.
std::set<layout::NetAddress> addresses_of(const ServerRecord& record) {
  std::set<layout::NetAddress> all;
  for (const auto& one : clients_addresses(record)) all.insert(one.address);
  for (const layout::ClientNetwork& network : record.networks) {
    for (const auto& one : network.addresses) all.insert(one.address);
  }
  return all;
}

// "1, 2".
std::string listed(const std::set<std::uint32_t>& ids) {
  std::string text;
  for (const std::uint32_t id : ids) text += (text.empty() ? "" : ", ") + std::to_string(id);
  return text;
}

}  // namespace

std::vector<std::string> namesakes(std::span<const ServerView> servers) {
  std::map<std::string, std::set<std::uint32_t>> names;
  std::map<layout::NetAddress, std::set<std::uint32_t>> addresses;
  for (const ServerView& server : servers) {
    if (!server.connected) continue;
    names[server.record.name].insert(server.record.id);
    for (const layout::NetAddress& address : addresses_of(server.record)) {
      addresses[address].insert(server.record.id);
    }
  }
  std::vector<std::string> found;
  for (const auto& [address, ids] : addresses) {
    if (ids.size() < 2) continue;
    found.push_back(
        fmt::format("Data servers {} say that they are at {}: a client may reach only one of them. "
                    "Change server.listen, server.advertise or network.addresses "
                    "(weft-ds.toml(5)).",
                    listed(ids), layout::to_string(address)));
  }
  for (const auto& [name, ids] : names) {
    if (ids.size() < 2) continue;
    found.push_back(
        fmt::format("Data servers {} are all called {}: change server.name (weft-ds.toml(5)).",
                    listed(ids), name));
  }
  return found;
}

}  // namespace weft::mds
