#include "tests/simulation/cluster/held_layout.h"

#include <algorithm>

#include "layout/files_layout.h"
#include "layout/flex_layout.h"
#include "tests/simulation/cluster/history.h"

namespace weft::sim {

namespace {

std::string without_port(const layout::NetAddress& address) {
  const std::string text = layout::to_string(address);
  return text.substr(0, text.rfind(':'));
}

}  // namespace

Result<HeldLayout> HeldLayout::make(layout::LayoutType type, std::span<const std::byte> body,
                                    const DeviceBody& device) {
  HeldLayout held;
  if (type == layout::LayoutType::kFiles) {
    const auto files = layout::decode_files_layout(body).value();
    auto bytes = device(files.device);
    if (!bytes) return pass(bytes);
    const auto servers = layout::decode_files_device(*bytes).value();
    held.blocks_each_ = files.stripe_unit / kBlockBytes;
    auto& only = held.mirrors_.emplace_back();
    for (std::size_t i = 0; i < servers.stripe_indices.size(); ++i) {
      const std::size_t stripe = (files.first_stripe_index + i) % servers.stripe_indices.size();
      const std::uint32_t server = servers.stripe_indices[stripe];
      only.push_back({.server = without_port(servers.servers[server].front().address),
                      .handle = files.handles[server],
                      .device = files.device});
    }
    return held;
  }
  auto flex = layout::decode_flex_layout(body).value();
  held.blocks_each_ = flex.stripe_unit / kBlockBytes;
  std::ranges::sort(flex.mirrors, std::ranges::greater(),
                    [](const auto& mirror) { return mirror.front().efficiency; });
  for (const auto& mirror : flex.mirrors) {
    auto& places = held.mirrors_.emplace_back();
    for (const layout::FlexServer& server : mirror) {
      auto bytes = device(server.device);
      if (!bytes) return pass(bytes);
      const auto decoded = layout::decode_flex_device(*bytes).value();
      places.push_back({.server = without_port(decoded.addresses.front().address),
                        .handle = server.handle,
                        .device = server.device});
    }
  }
  return held;
}

std::vector<HeldLayout::Place> HeldLayout::places(std::size_t block) const {
  std::vector<Place> found;
  for (const auto& mirror : mirrors_) {
    found.push_back(mirror[block / blocks_each_ % mirror.size()]);
  }
  return found;
}

}  // namespace weft::sim
