#include "ganesha-fsal/files/ways.h"

#include <algorithm>

namespace weft::mds {

Result<Mirrors::Usable> ways(const Registry& registry, const layout::LayoutMap& map,
                             const std::optional<layout::NetAddress>& client) {
  const auto usable = [&registry, client](std::uint32_t ds_id) {
    return registry.is_for(ds_id, client);
  };
  if (std::ranges::all_of(servers_of(map), usable)) return Mirrors::Usable{};
  const layout::Copy& first = map.copies.front();
  for (std::size_t stripe = 0; stripe < first.ds_ids.size(); ++stripe) {
    const bool any = std::ranges::any_of(map.copies, [&](const layout::Copy& copy) {
      return copy.state_of(stripe) == layout::CopyState::kCurrent && usable(copy.ds_ids[stripe]);
    });
    if (!any) return no_way_to(first.ds_ids[stripe], Errc::kLayoutUnavailable);
  }
  return Mirrors::Usable(usable);
}

std::unexpected<Error> no_way_to(std::uint32_t ds_id, Errc code) {
  return fail(code, "the client is in no network of data server " + std::to_string(ds_id));
}

}  // namespace weft::mds
