#include "ganesha-fsal/files/grants.h"

namespace weft::mds {

GrantTable::Map::const_iterator GrantTable::first_of(FileId file, ClientId client) const {
  return grants_.lower_bound(Key{file, client, layout::Access::kRead});
}

bool GrantTable::holds(FileId file, ClientId client) const {
  const auto it = first_of(file, client);
  return it != grants_.end() && it->first.file == file && it->first.client == client;
}

void GrantTable::add(FileId file, ClientId client, layout::Access access, Clock::time_point now) {
  auto [it, fresh] = grants_.try_emplace(Key{file, client, access});
  Grant& grant = it->second;
  if (fresh) {
    grant.file = file;
    grant.client = client;
    grant.access = access;
    grant.since = now;
  }
  ++grant.segments;
}

bool GrantTable::remove_segment(FileId file, ClientId client, layout::Access access) {
  const auto it = grants_.find(Key{file, client, access});
  if (it != grants_.end() && --it->second.segments == 0) grants_.erase(it);
  return !holds(file, client);
}

bool GrantTable::remove(FileId file, ClientId client, std::optional<layout::Access> only) {
  std::size_t removed = 0;
  for (const auto access : {layout::Access::kRead, layout::Access::kReadWrite}) {
    if (!only || *only == access) removed += grants_.erase(Key{file, client, access});
  }
  return removed > 0 && !holds(file, client);
}

std::vector<Recalled> GrantTable::recall(FileId file, Clock::time_point now,
                                         Clock::duration patience, std::string_view reason,
                                         const RecallWhat& what) {
  std::vector<Recalled> asked;
  for (auto it = grants_.lower_bound(Key{file, 0, layout::Access::kRead});
       it != grants_.end() && it->first.file == file; ++it) {
    Grant& grant = it->second;
    if (grant.client == what.except || (what.only && grant.access != *what.only)) continue;
    if (what.client && grant.client != *what.client) continue;
    grant.others_wait = what.others_wait || (grant.deadline && grant.others_wait);
    if (grant.state == GrantState::kRecalled) continue;
    grant.state = GrantState::kRecalled;
    grant.recalled_at = now;
    grant.deadline = now + patience;
    grant.reason = reason;
    if (!asked.empty() && asked.back().client == grant.client) {
      asked.back().only.reset();
    } else {
      asked.push_back({grant.client, grant.access});
    }
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

std::optional<Grant> GrantTable::find(FileId file, ClientId client, layout::Access access) const {
  const auto it = grants_.find(Key{file, client, access});
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
