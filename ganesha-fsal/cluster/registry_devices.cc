// The registry's devices, and the fences it keeps for data servers that are away.

#include <spdlog/spdlog.h>

#include <algorithm>

#include "ganesha-fsal/cluster/registry.h"
#include "rpc/control/mds_boot.h"

namespace weft::mds {

Result<layout::Device> Registry::compose(std::span<const std::uint32_t> ds_ids) const {
  const MutexLock lock(mutex_);
  layout::Device device;
  device.number = devices_.next_number();
  for (const std::uint32_t id : ds_ids) {
    const auto found = servers_.find(id);
    if (found == servers_.end()) {
      return fail(Errc::kLayoutUnavailable, "no data server " + std::to_string(id));
    }
    const ServerRecord& record = found->second;
    device.members.push_back(
        {id, record.address_generation, clients_addresses(record), record.networks});
  }
  return device;
}

bool Registry::is_for(std::uint32_t ds_id, const std::optional<layout::NetAddress>& client) const {
  const MutexLock lock(mutex_);
  const auto found = servers_.find(ds_id);
  if (found == servers_.end()) return true;
  const auto& networks = found->second.networks;
  return networks.empty() || layout::network_for(networks, client) != nullptr;
}

std::shared_ptr<const layout::Device> Registry::use(const layout::Device& like) {
  const MutexLock lock(mutex_);
  return devices_.use(layout::DeviceTable::key_of(like));
}

Result<std::shared_ptr<const layout::Device>> Registry::device_for(
    std::span<const std::uint32_t> ds_ids) {
  auto wanted = compose(ds_ids);
  if (!wanted) return pass(wanted);
  if (auto known = use(*wanted)) return known;

  auto turn = await_turn();
  if (!turn) return pass(turn);
  wanted = compose(ds_ids);  // another thread may have made it, or addresses have changed
  if (!wanted) return pass(wanted);
  if (auto known = use(*wanted)) return known;
  if (auto valid = layout::validate(*wanted); !valid) return pass(valid);
  const std::vector<std::uint64_t> forgotten = forgettable_devices();
  auto kept = store_.run([&](Transaction& tx) -> Result<> {
    tx.put(cluster_keys::device(wanted->number), layout::encode_device(*wanted));
    for (const std::uint64_t number : forgotten) tx.erase(cluster_keys::device(number));
    return {};
  });
  if (!kept) return pass(kept);
  spdlog::info("event=device_made number={} servers={} forgotten={}", wanted->number,
               wanted->members.size(), forgotten.size());
  const MutexLock lock(mutex_);
  for (const std::uint64_t number : forgotten) devices_.forget(number);
  const std::uint64_t number = wanted->number;
  if (auto added = devices_.add(std::move(*wanted)); !added) return pass(added);
  return devices_.find(number);
}

std::vector<std::uint64_t> Registry::forgettable_devices() const {
  const MutexLock lock(mutex_);
  return devices_.forgettable(kUnusedDevices);
}

std::shared_ptr<const layout::Device> Registry::known_device(
    std::span<const std::uint32_t> ds_ids) const {
  const auto wanted = compose(ds_ids);
  if (!wanted) return nullptr;
  const MutexLock lock(mutex_);
  return devices_.find(layout::DeviceTable::key_of(*wanted));
}

std::shared_ptr<const layout::Device> Registry::device(const layout::DeviceId& id) const {
  const MutexLock lock(mutex_);
  return id.salt == devices_.salt() ? devices_.find(id.number) : nullptr;
}

layout::DeviceId Registry::device_id(std::uint8_t fsal, std::uint16_t export_id,
                                     const layout::Device& device) const {
  const MutexLock lock(mutex_);
  return {fsal, export_id, devices_.salt(), device.number};
}

Result<> Registry::add_fences(std::span<const std::uint32_t> ds_ids,
                              std::span<const control::Fence> fences) {
  return store_.run([&](Transaction& tx) -> Result<> {
    for (const std::uint32_t id : ds_ids) {
      for (const control::Fence& fence : fences) {
        const std::string key = cluster_keys::fence(id, fence);
        auto kept = tx.get(key);
        if (!kept) return pass(kept);
        if (kept->has_value()) {
          const auto pending = decode_fence(**kept);
          if (!pending) return std::unexpected(pending.error());
          if (pending->epoch >= fence.epoch) continue;
        }
        tx.put(key, encode(fence));
      }
    }
    return {};
  });
}

Result<> Registry::fences_done(std::uint32_t ds_id, std::span<const control::Fence> fences) {
  const auto earlier = run_fence();
  if (earlier && std::ranges::find(fences, *earlier) != fences.end()) {
    const MutexLock lock(mutex_);
    const auto known = live_.find(ds_id);
    if (known != live_.end()) known->second.runs_fenced = true;
  }
  return store_.run([&](Transaction& tx) -> Result<> {
    for (const control::Fence& fence : fences) {
      const std::string key = cluster_keys::fence(ds_id, fence);
      auto kept = tx.get(key);
      if (!kept) return pass(kept);
      if (!kept->has_value()) continue;
      const auto pending = decode_fence(**kept);
      // One with a greater epoch came meanwhile: that one is not acknowledged.
      if (pending && pending->epoch > fence.epoch) continue;
      tx.erase(key);
    }
    return {};
  });
}

Result<std::vector<control::Fence>> Registry::pending_fences(std::uint32_t ds_id,
                                                             std::size_t limit) const {
  std::vector<control::Fence> fences;
  Result<> outcome;
  const auto range = cluster_keys::fences_of(ds_id);
  auto scanned = store_.latest().scan(range.begin, range.end, limit,
                                      [&](std::string_view, std::string_view value) {
                                        const auto fence = decode_fence(value);
                                        if (fence) fences.push_back(*fence);
                                        if (!fence) outcome = std::unexpected(fence.error());
                                        return fence.has_value();
                                      });
  if (!scanned) return pass(scanned);
  if (!outcome) return pass(outcome);
  return fences;
}

std::optional<control::Fence> Registry::run_fence() const {
  const std::uint64_t epoch = control::epoch_of(options_.boot);
  if (epoch == 0) return std::nullopt;
  return control::Fence{.what = control::Fence::What::kClient,
                        .client_id = control::kOwnClientId,
                        .epoch = static_cast<std::uint32_t>(epoch)};
}

bool Registry::runs_fenced(std::uint32_t ds_id) const {
  if (!run_fence()) return true;
  const MutexLock lock(mutex_);
  const auto known = live_.find(ds_id);
  return known != live_.end() && known->second.runs_fenced;
}

// Another process may have a store that was set back.
void Registry::started_anew(std::uint32_t ds_id, std::uint64_t boot) {
  const MutexLock lock(mutex_);
  const auto known = live_.find(ds_id);
  if (known != live_.end() && known->second.boot != boot) known->second.runs_fenced = false;
}

Result<std::vector<control::Fence>> Registry::missing_fences(std::uint32_t ds_id) const {
  auto fences = pending_fences(ds_id, control::kMaxFences - 1);
  const auto earlier = run_fence();
  if (!fences || !earlier) return fences;
  const MutexLock lock(mutex_);
  const auto known = live_.find(ds_id);
  if (known == live_.end() || !known->second.runs_fenced) fences->push_back(*earlier);
  return fences;
}

}  // namespace weft::mds
