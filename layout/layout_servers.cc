#include "layout/layout_servers.h"

#include <algorithm>

#include "rpc/base/assert.h"

namespace weft::layout {

Result<LayoutServers> one_of_each(const LayoutMap& map,
                                  std::span<const std::uint8_t> copy_of_stripe) {
  const Copy& front = map.copies.front();
  if (copy_of_stripe.size() != front.ds_ids.size()) {
    return fail(Errc::kInvalid, "one copy is to be chosen for each stripe");
  }
  LayoutServers servers;
  servers.first_index = front.first_index;
  for (std::size_t stripe = 0; stripe < copy_of_stripe.size(); ++stripe) {
    const std::uint8_t copy = copy_of_stripe[stripe];
    if (copy >= map.copies.size()) return fail(Errc::kInvalid, "no such copy");
    servers.ds_ids.push_back(map.copies[copy].ds_ids[stripe]);
  }
  return servers;
}

Result<std::vector<std::vector<std::uint32_t>>> flex_mirrors(const LayoutMap& map,
                                                             const Usable& usable, bool writing) {
  const Copy& front = map.copies.front();
  const std::size_t stripes = front.ds_ids.size();
  std::vector<std::vector<std::uint32_t>> mirrors(map.copies.size());
  for (std::size_t unit = 0; unit < stripes; ++unit) {
    const std::size_t stripe = (unit + front.first_index) % stripes;
    std::uint32_t current = 0;  // stands in for what cannot be used
    for (std::size_t copy = 0; copy < map.copies.size() && current == 0; ++copy) {
      const Copy& from = map.copies[copy];
      if (from.state_of(stripe) == CopyState::kCurrent && usable(copy, stripe)) {
        current = from.ds_ids[stripe];
      }
    }
    if (current == 0) {
      return fail(Errc::kLayoutUnavailable,
                  "no copy of stripe " + std::to_string(stripe) + " is current and usable");
    }
    for (std::size_t copy = 0; copy < map.copies.size(); ++copy) {
      const CopyState state = map.copies[copy].state_of(stripe);
      const bool fits = state == CopyState::kCurrent || (writing && state == CopyState::kResyncing);
      const bool named = fits && usable(copy, stripe);
      mirrors[copy].push_back(named ? map.copies[copy].ds_ids[stripe] : current);
    }
  }
  std::vector<std::vector<std::uint32_t>> different;
  for (auto& mirror : mirrors) {
    if (std::ranges::find(different, mirror) == different.end()) {
      different.push_back(std::move(mirror));
    }
  }
  return different;
}

bool written_by_clients(const LayoutMap& map) {
  return map.type == LayoutType::kFlexFiles &&
         std::ranges::all_of(map.copies,
                             [](const Copy& copy) { return copy.state == CopyState::kCurrent; });
}

Result<std::array<std::uint32_t, 2>> partners_of(const LayoutMap& map, std::size_t copy,
                                                 std::size_t stripe) {
  WEFT_ASSERT(copy < map.copies.size() && stripe < map.copies.front().ds_ids.size());
  std::array<std::uint32_t, 2> partners = {0, 0};
  std::size_t found = 0;
  for (std::size_t i = 0; i < map.copies.size(); ++i) {
    if (i == copy || !map.copies[i].holds(stripe)) continue;
    if (found == partners.size()) return fail(Errc::kNotSupported, "more than three copies");
    partners[found++] = map.copies[i].ds_ids[stripe];
  }
  return partners;
}

Result<Handle> leading_handle(const LayoutMap& map, std::size_t copy, std::size_t stripe) {
  Handle handle;
  handle.access = Access::kReadWrite;
  handle.ds_id = map.copies[copy].ds_ids[stripe];
  handle.object_epoch = map.object_epoch;
  if (map.duplication != Duplication::kServerAsync && map.duplication != Duplication::kServerSync) {
    return handle;
  }
  auto partners = partners_of(map, copy, stripe);
  if (!partners) return pass(partners);
  handle.partners = *partners;
  if (handle.partners[0] != 0) handle.duplication = map.duplication;
  return handle;
}

}  // namespace weft::layout
