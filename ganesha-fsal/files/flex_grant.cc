#include "ganesha-fsal/files/flex_grant.h"

#include <optional>
#include <string>

#include "layout/layout_servers.h"
#include "rpc/peer/keys.h"

namespace weft::mds {
namespace {

// Another number for each client and file, whatever pattern theirs have (splitmix64).
std::uint64_t mixed(FileId file, ClientId client) {
  std::uint64_t x = file * 0x9e3779b97f4a7c15 + client;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

using Mirrors = std::vector<std::vector<std::uint32_t>>;

Result<Mirrors> to_read(const layout::LayoutMap& map, const FlexServers& servers) {
  const auto usable = [&](std::size_t copy, std::size_t stripe) {
    return servers.here(map.copies[copy].ds_ids[stripe]);
  };
  auto mirrors = layout::flex_mirrors(map, usable, false);
  if (!mirrors) return fail(Errc::kLayoutTryLater, mirrors.error().text);
  return mirrors;
}

Result<Mirrors> to_write(const layout::LayoutMap& map, std::span<const std::uint8_t> leads,
                         bool led, const FlexServers& servers) {
  Mirrors mirrors;
  if (!led) {
    for (const layout::Copy& copy : map.copies) mirrors.push_back(copy.ds_ids);
  } else {
    if (leads.empty()) return fail(Errc::kBusy, "nobody leads");
    mirrors.push_back(map.copies[leads.front()].ds_ids);
  }
  for (const auto& mirror : mirrors) {
    if (servers.here(mirror.front())) continue;
    return fail(map.copies.size() == 1 ? Errc::kLayoutTryLater : Errc::kBusy,
                "data server " + std::to_string(mirror.front()) + " is away");
  }
  return mirrors;
}

// What the handles have in common, and what the leader has to do.
Result<layout::Handle> claims(const layout::LayoutMap& map, std::span<const std::uint8_t> leads,
                              bool led, const FlexGrant& grant) {
  layout::Handle handle;
  if (led) {
    layout::LayoutMap brought = map;
    brought.duplication = layout::Duplication::kServerSync;
    auto leading = layout::leading_handle(brought, leads.front(), 0);
    if (!leading) return leading;
    handle = *leading;
  }
  handle.access = grant.access;
  handle.key_id = rpc::peer::kHandleKeyId;
  handle.object = grant.object;
  handle.client_id = grant.client;
  handle.object_epoch = map.object_epoch;
  handle.client_epoch = grant.client_epoch;
  return handle;
}

}  // namespace

Result<layout::FlexLayout> flex_layout(const layout::LayoutMap& map,
                                       std::span<const std::uint8_t> leads, const FlexGrant& grant,
                                       const FlexServers& servers) {
  if (map.copies.front().ds_ids.size() != 1) {
    return fail(Errc::kLayoutUnavailable, "mirrors of several data servers");
  }
  const bool writing = grant.access == layout::Access::kReadWrite;
  const bool led = writing && (grant.led || !layout::written_by_clients(map));
  auto mirrors = writing ? to_write(map, leads, led, servers) : to_read(map, servers);
  if (!mirrors) return pass(mirrors);
  auto handle = claims(map, leads, led, grant);
  if (!handle) return pass(handle);
  std::optional<std::uint64_t> seed;
  if (map.reads == layout::ReadPolicy::kAllCopies) seed = mixed(grant.file, grant.client);
  std::vector<double> spares;
  for (const auto& mirror : *mirrors) spares.push_back(servers.spare(mirror.front()));
  const auto ranks = layout::efficiencies(spares, seed);

  layout::FlexLayout made;
  made.stripe_unit = map.stripe_unit;
  for (std::size_t at = 0; at < mirrors->size(); ++at) {
    handle->ds_id = (*mirrors)[at].front();
    auto device = servers.device(handle->ds_id);
    if (!device) return pass(device);
    layout::FlexServer server;
    server.device = *device;
    server.efficiency = ranks[at];
    server.handle = seal(*handle, grant.key);
    made.mirrors.push_back({server});
  }
  return made;
}

}  // namespace weft::mds
