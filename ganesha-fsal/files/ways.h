// Which data servers of a file a client has a way to (layout/client_network.h).
//
// Threading: any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "ganesha-fsal/cluster/registry.h"
#include "ganesha-fsal/files/mirrors.h"
#include "layout/layout_map.h"
#include "rpc/base/error.h"

namespace weft::mds {

// Empty: to all of them. kLayoutUnavailable: there is a stripe without a current copy on one that
// it has a way to. The registry outlives what is returned.
[[nodiscard]] Result<Mirrors::Usable> ways(const Registry& registry, const layout::LayoutMap& map,
                                           const std::optional<layout::NetAddress>& client);

// Why a client gets no layout, or no device.
[[nodiscard]] std::unexpected<Error> no_way_to(std::uint32_t ds_id, Errc code);

}  // namespace weft::mds
