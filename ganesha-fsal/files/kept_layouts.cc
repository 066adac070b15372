#include "ganesha-fsal/files/kept_layouts.h"

#include <algorithm>

namespace weft::mds {
namespace {

// A Linux client that has written a file of the flexfiles type holds on to the layout when it is
// asked for what it does not use, and marks it: recalled after that it is returned, and freed in
// the background, too.
constexpr std::chrono::milliseconds kAnswerTime{100};

}  // namespace

bool KeptLayouts::covered(const Client& client, std::span<const std::uint32_t> ds_ids,
                          Clock::time_point now) const {
  std::set<std::uint32_t> missing(ds_ids.begin(), ds_ids.end());
  for (const auto& [file, kept] : client.files) {
    if (now - kept.since >= limits_.time / 2) continue;
    for (const std::uint32_t ds_id : kept.ds_ids) missing.erase(ds_id);
    if (missing.empty()) return true;
  }
  return missing.empty();
}

bool KeptLayouts::names_any(const Kept& kept, const std::set<std::uint32_t>& away) {
  return std::ranges::any_of(kept.ds_ids, [&](auto ds_id) { return away.contains(ds_id); });
}

Clock::time_point KeptLayouts::look_at(const Client& client) const {
  Clock::time_point at = kNever;
  if (!client.understands || client.lost) {
    at = client.asked_at ? *client.asked_at + limits_.ask_again : Clock::time_point::min();
  }
  return client.files.empty() ? std::min(at, client.seen + limits_.forget) : at;
}

void KeptLayouts::index(Clients::value_type& of) {
  auto& [id, client] = of;
  const Clock::time_point at = look_at(client);
  if (at == client.indexed) return;
  if (client.indexed != kNever) looks_.erase({client.indexed, id});
  if (at != kNever) looks_.emplace(at, id);
  client.indexed = at;
}

void KeptLayouts::recall_at(ClientId id, FileId file, Kept& kept, Clock::time_point at) {
  recalls_.erase({kept.recall_at, id, file});
  kept.recall_at = at;
  recalls_.insert({at, id, file});
}

bool KeptLayouts::add(FileId file, ClientId client, std::span<const std::uint32_t> ds_ids,
                      Clock::time_point now) {
  if (limits_.per_client == 0) return false;
  auto& entry = *clients_.try_emplace(client).first;
  Client& of = entry.second;
  of.seen = now;
  const bool kept = of.understands == true && !of.files.contains(file) &&
                    of.files.size() < limits_.per_client && size_ < limits_.in_all &&
                    !covered(of, ds_ids, now);
  if (kept) {
    Kept& made = of.files[file];
    made = {.ds_ids = {ds_ids.begin(), ds_ids.end()}, .since = now, .recall_at = {}};
    recall_at(client, file, made, now + limits_.time);
    if (names_any(made, away_)) of.lost = true;
    ++size_;
  }
  index(entry);
  return kept;
}

void KeptLayouts::remove(FileId file, ClientId client) {
  const auto of = clients_.find(client);
  if (of == clients_.end()) return;
  const auto at = of->second.files.find(file);
  if (at == of->second.files.end()) return;
  recalls_.erase({at->second.recall_at, client, file});
  of->second.files.erase(at);
  --size_;
  index(*of);
}

bool KeptLayouts::has(FileId file, ClientId client) const {
  const auto of = clients_.find(client);
  return of != clients_.end() && of->second.files.contains(file);
}

void KeptLayouts::look_for_lost(const std::set<std::uint32_t>& away) {
  const bool more = !std::ranges::includes(away_, away);
  away_ = away;
  if (!more) return;
  for (auto& of : clients_) {
    of.second.lost = std::ranges::any_of(
        of.second.files, [&](const auto& file) { return names_any(file.second, away); });
    index(of);
  }
}

bool KeptLayouts::ask(Clients::value_type& of, Clock::time_point now,
                      const std::set<std::uint32_t>& away) {
  auto& [id, client] = of;
  client.lost = false;
  for (auto& [file, kept] : client.files) {
    if (!names_any(kept, away)) continue;
    client.lost = true;
    recall_at(id, file, kept, now + kAnswerTime);
  }
  const bool asked = client.lost || !client.understands;
  if (asked) client.asked_at = now;
  return asked;
}

KeptLayouts::Due KeptLayouts::due(Clock::time_point now, const std::set<std::uint32_t>& away) {
  Due due;
  look_for_lost(away);
  while (!looks_.empty() && looks_.begin()->first <= now) {
    auto& of = *clients_.find(looks_.begin()->second);
    auto& [id, client] = of;
    if (client.files.empty() && now - client.seen >= limits_.forget) {
      looks_.erase(looks_.begin());
      clients_.erase(ClientId{id});
      continue;
    }
    if (ask(of, now, away)) due.asked.push_back(id);
    index(of);
  }
  while (!recalls_.empty() && recalls_.begin()->at <= now &&
         due.recalled.size() < limits_.recalls_at_once) {
    const Recall next = *recalls_.begin();
    due.recalled.emplace_back(next.file, next.client);
    Kept& kept = clients_.at(next.client).files.at(next.file);
    recall_at(next.client, next.file, kept, now + limits_.time / 2);
  }
  return due;
}

void KeptLayouts::answered(ClientId client, bool understood) {
  const auto of = clients_.find(client);
  if (of == clients_.end()) return;
  // That was for this answer only.
  if (!of->second.understands) of->second.asked_at.reset();
  of->second.understands = understood;
  index(*of);
}

}  // namespace weft::mds
