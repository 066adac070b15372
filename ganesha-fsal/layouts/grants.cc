#include "ganesha-fsal/layouts/grants.h"

namespace weft::mds {

GrantTable::Map::const_iterator GrantTable::first_of(FileId file) const {
  return grants_.lower_bound(Key{file, 0});
}

void GrantTable::add(FileId file, ClientId client, layout::Access access, Clock::time_point now) {
  auto [it, fresh] = grants_.try_emplace(Key{file, client});
  Grant& grant = it->second;
  if (fresh) {
    grant.file = file;
    grant.client = client;
    grant.since = now;
  }
  ++(access == layout::Access::kRead ? grant.read_segments : grant.write_segments);
}

bool GrantTable::remove_segment(FileId file, ClientId client, layout::Access access) {
  const auto it = grants_.find(Key{file, client});
  if (it == grants_.end()) return true;
  std::uint32_t& count =
      access == layout::Access::kRead ? it->second.read_segments : it->second.write_segments;
  if (count > 0) --count;
  if (it->second.read_segments + it->second.write_segments > 0) return false;
  grants_.erase(it);
  return true;
}

bool GrantTable::remove(FileId file, ClientId client) {
  return grants_.erase(Key{file, client}) > 0;
}

std::vector<ClientId> GrantTable::recall(FileId file, Clock::time_point now,
                                         Clock::duration patience, std::string_view reason,
                                         std::optional<ClientId> except) {
  std::vector<ClientId> asked;
  for (auto it = grants_.lower_bound(Key{file, 0}); it != grants_.end() && it->first.file == file;
       ++it) {
    Grant& grant = it->second;
    if (grant.state == GrantState::kRecalled || grant.client == except) continue;
    grant.state = GrantState::kRecalled;
    grant.recalled_at = now;
    grant.deadline = now + patience;
    grant.reason = reason;
    asked.push_back(grant.client);
  }
  return asked;
}

std::vector<Grant> GrantTable::overdue(Clock::time_point now) const {
  std::vector<Grant> late;
  for (const auto& [key, grant] : grants_) {
    if (grant.deadline && *grant.deadline <= now) late.push_back(grant);
  }
  return late;
}

std::optional<Grant> GrantTable::find(FileId file, ClientId client) const {
  const auto it = grants_.find(Key{file, client});
  if (it == grants_.end()) return std::nullopt;
  return it->second;
}

std::vector<Grant> GrantTable::of_file(FileId file) const {
  std::vector<Grant> found;
  for (auto it = first_of(file); it != grants_.end() && it->first.file == file; ++it) {
    found.push_back(it->second);
  }
  return found;
}

std::vector<Grant> GrantTable::all(std::size_t limit) const {
  std::vector<Grant> found;
  for (const auto& [key, grant] : grants_) {
    if (found.size() == limit) break;
    found.push_back(grant);
  }
  return found;
}

bool GrantTable::any_of_file(FileId file) const {
  const auto it = first_of(file);
  return it != grants_.end() && it->first.file == file;
}

bool GrantTable::any_writer(FileId file, std::optional<ClientId> except) const {
  for (auto it = first_of(file); it != grants_.end() && it->first.file == file; ++it) {
    if (it->second.writes() && it->second.client != except) return true;
  }
  return false;
}

}  // namespace weft::mds
