#include "ganesha-fsal/files/grants.h"

#include <algorithm>

namespace weft::mds {

using layout::Access;

const Grant* FileGrants::find(ClientId client, Access access) const {
  const auto it = grants_.find({client, access});
  return it == grants_.end() ? nullptr : &it->second;
}

bool FileGrants::holds(ClientId client) const {
  return find(client, Access::kRead) != nullptr || find(client, Access::kReadWrite) != nullptr;
}

std::uint32_t FileGrants::segments(ClientId client) const {
  std::uint32_t segments = 0;
  for (const Access access : {Access::kRead, Access::kReadWrite}) {
    if (const Grant* grant = find(client, access)) segments += grant->segments;
  }
  return segments;
}

void FileGrants::add(ClientId client, Access access, Clock::time_point now) {
  auto [it, fresh] = grants_.try_emplace({client, access});
  Grant& grant = it->second;
  if (fresh) {
    grant.client = client;
    grant.access = access;
    grant.since = now;
    if (grant.writes()) ++writers_;
  }
  ++grant.segments;
}

void FileGrants::names(ClientId client, Access access,
                       std::shared_ptr<const layout::Device> device) {
  const auto it = grants_.find({client, access});
  if (it == grants_.end()) return;
  auto& devices = it->second.devices;
  if (std::ranges::find(devices, device) != devices.end()) return;
  if (devices.size() == kMostDevices) devices.erase(devices.begin());
  devices.push_back(std::move(device));
}

FileGrants::Grants::iterator FileGrants::erase(Grants::iterator at) {
  if (at->second.writes()) --writers_;
  if (at->second.state == GrantState::kRecalled) --recalled_;
  return grants_.erase(at);
}

bool FileGrants::remove_segment(ClientId client, Access access) {
  const auto it = grants_.find({client, access});
  if (it != grants_.end() && --it->second.segments == 0) erase(it);
  return !holds(client);
}

template <class Which>
bool FileGrants::remove_if(ClientId client, std::optional<Access> only, const Which& which) {
  bool removed = false;
  for (const Access access : {Access::kRead, Access::kReadWrite}) {
    if (only && *only != access) continue;
    const auto it = grants_.find({client, access});
    if (it == grants_.end() || !which(it->second)) continue;
    erase(it);
    removed = true;
  }
  return removed && !holds(client);
}

bool FileGrants::remove(ClientId client) {
  return remove_if(client, std::nullopt, [](const Grant&) { return true; });
}

bool FileGrants::remove_recalled(ClientId client, std::optional<Access> only,
                                 std::uint64_t recall) {
  return remove_if(client, only, [recall](const Grant& grant) {
    return grant.state == GrantState::kRecalled && grant.recall == recall;
  });
}

std::vector<Recalled> FileGrants::recall(Clock::time_point now, Clock::duration patience,
                                         std::string_view reason, const RecallWhat& what,
                                         std::uint64_t number) {
  std::vector<Recalled> asked;
  for (auto& [key, grant] : grants_) {
    if (grant.client == what.except || (what.only && grant.access != *what.only)) continue;
    if (what.client && grant.client != *what.client) continue;
    if (what.moved && !names_older(grant, *what.moved)) continue;
    grant.others_wait = what.others_wait || (grant.deadline && grant.others_wait);
    if (grant.state == GrantState::kRecalled) continue;
    grant.state = GrantState::kRecalled;
    grant.recalled_at = now;
    grant.deadline = now + patience;
    grant.reason = reason;
    grant.recall = number;
    deadline_ = recalled_ == 0 ? *grant.deadline : std::min(deadline_, *grant.deadline);
    ++recalled_;
    if (!asked.empty() && asked.back().client == grant.client) {
      asked.back().only.reset();
    } else {
      asked.push_back({grant.client, grant.access});
    }
  }
  return asked;
}

bool FileGrants::names_older(const Grant& grant, const AddressesOf& now) {
  if (grant.devices.empty() || grant.devices.size() == kMostDevices) return true;
  return std::ranges::any_of(grant.devices, [&](const auto& device) {
    return std::ranges::any_of(device->members, [&](const layout::DeviceMember& member) {
      return member.ds_id == now.ds_id && member.address_generation != now.generation;
    });
  });
}

// deadline_ stays: nothing is overdue before.
void FileGrants::waits(ClientId client, std::optional<Access> only, Clock::time_point now,
                       Clock::duration patience) {
  for (const Access access : {Access::kRead, Access::kReadWrite}) {
    if (only && *only != access) continue;
    const auto it = grants_.find({client, access});
    if (it == grants_.end() || it->second.state != GrantState::kRecalled) continue;
    Grant& grant = it->second;
    grant.deadline = std::min(now + patience, *grant.recalled_at + 2 * patience);
  }
}

std::vector<ClientId> FileGrants::overdue(Clock::time_point now) {
  std::vector<ClientId> late;
  auto next = Clock::time_point::max();
  for (const auto& [key, grant] : grants_) {
    if (!grant.deadline) continue;
    next = std::min(next, *grant.deadline);
    if (*grant.deadline <= now && (late.empty() || late.back() != grant.client)) {
      late.push_back(grant.client);
    }
  }
  deadline_ = next;
  return late;
}

bool FileGrants::any_writer(std::optional<ClientId> except) const {
  const bool own = except && find(*except, Access::kReadWrite) != nullptr;
  return writers_ > (own ? 1U : 0U);
}

bool FileGrants::layouts_of(Access access, std::uint32_t least) const {
  std::uint32_t found = 0;
  for (const auto& [key, grant] : grants_) {
    if (key.second == access) found += grant.segments;
    if (found >= least) return true;
  }
  return false;
}

bool FileGrants::any_recalled(std::optional<Access> only) const {
  if (recalled_ == 0 || !only) return recalled_ > 0;
  return std::ranges::any_of(grants_, [&](const auto& of) {
    return of.second.state == GrantState::kRecalled && of.second.access == *only;
  });
}

bool FileGrants::conflicts(ClientId client, Access access) const {
  if (recalled_ == 0) return false;
  return std::ranges::any_of(grants_, [&](const auto& of) {
    const Grant& grant = of.second;
    const bool same = grant.client == client && grant.access == access;
    return grant.state == GrantState::kRecalled && (grant.others_wait || same);
  });
}

std::vector<Grant> FileGrants::all() const {
  std::vector<Grant> all;
  all.reserve(grants_.size());
  for (const auto& [key, grant] : grants_) all.push_back(grant);
  return all;
}

std::optional<Clock::time_point> LayoutState::fence_at() const {
  std::optional<Clock::time_point> at;
  for (const PendingFence& fence : fences) {
    if (!fence.in_flight) at = std::min(at.value_or(fence.retry_at), fence.retry_at);
  }
  return at;
}

}  // namespace weft::mds
