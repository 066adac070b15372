// The part of admin reports about clients' networks: what data servers tell which clients, and
// which clients have no way to which data servers.
//
// Threading: any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ganesha-fsal/admin/source.h"
#include "ganesha-fsal/cluster/registry.h"
#include "ganesha-fsal/server/environment.h"

namespace weft::mds {

[[nodiscard]] std::vector<NetworkReport> networks_report(const ServerRecord& record);

// Those of the data servers none of whose networks a client with this address is in; none when the
// address is not known.
[[nodiscard]] std::vector<ServerName> no_way(const Registry& registry, std::string_view address,
                                             std::span<const std::uint32_t> ds_ids);
// Of clients that have a lease, those that lack a way to some of these.
[[nodiscard]] std::vector<NoWayReport> without_way(const Registry& registry,
                                                   const std::map<ClientId, NfsClient>& clients,
                                                   std::span<const std::uint32_t> ds_ids);

}  // namespace weft::mds
