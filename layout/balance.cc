#include "layout/balance.h"

#include <algorithm>

namespace weft::layout {

Balance::Balance(std::span<const Candidate> candidates, double within) : within_(within) {
  for (const Candidate& server : candidates) {
    if (server.state != ServerState::kUp || server.capacity_bytes == 0) continue;
    const std::uint64_t used =
        server.capacity_bytes - std::min(server.capacity_bytes, server.free_bytes);
    servers_[server.ds_id] = {static_cast<double>(server.capacity_bytes),
                              static_cast<double>(used)};
  }
}

double Balance::part(std::uint32_t ds_id) const {
  const auto at = servers_.find(ds_id);
  return at == servers_.end() ? 0 : at->second.part();
}

double Balance::mean() const {
  double capacity = 0;
  double used = 0;
  for (const auto& [ds_id, space] : servers_) {
    capacity += space.capacity;
    used += space.used;
  }
  return capacity > 0 ? used / capacity : 0;
}

double Balance::spread() const {
  double least = 1;
  double most = 0;
  for (const auto& [ds_id, space] : servers_) {
    least = std::min(least, space.part());
    most = std::max(most, space.part());
  }
  return std::max(0.0, most - least);
}

std::optional<std::uint32_t> Balance::giver() const {
  if (even()) return std::nullopt;
  std::optional<std::uint32_t> fullest;
  for (const auto& [ds_id, space] : servers_) {
    if (passed_.contains(ds_id) || space.part() <= mean()) continue;
    if (!fullest || space.part() > part(*fullest)) fullest = ds_id;
  }
  return fullest;
}

bool Balance::gains(std::uint32_t from, std::uint32_t to, std::uint64_t bytes) const {
  const auto giver = servers_.find(from);
  const auto taker = servers_.find(to);
  if (giver == servers_.end() || taker == servers_.end() || from == to) return false;
  const auto moved = static_cast<double>(bytes);
  return (taker->second.used + moved) / taker->second.capacity <=
         (giver->second.used - moved) / giver->second.capacity;
}

void Balance::move(std::uint32_t from, std::uint32_t to, std::uint64_t bytes) {
  const auto moved = static_cast<double>(bytes);
  if (const auto giver = servers_.find(from); giver != servers_.end()) giver->second.used -= moved;
  if (const auto taker = servers_.find(to); taker != servers_.end()) taker->second.used += moved;
}

}  // namespace weft::layout
