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

bool KeptLayouts::add(FileId file, ClientId client, std::span<const std::uint32_t> ds_ids,
                      Clock::time_point now) {
  if (limits_.per_client == 0) return false;
  Client& of = clients_[client];
  of.seen = now;
  if (of.understands != true || of.files.contains(file)) return false;
  if (of.files.size() >= limits_.per_client || size_ >= limits_.in_all) return false;
  if (covered(of, ds_ids, now)) return false;
  of.files.emplace(file, Kept{.ds_ids = {ds_ids.begin(), ds_ids.end()},
                              .since = now,
                              .recall_at = now + limits_.time});
  ++size_;
  return true;
}

void KeptLayouts::remove(FileId file, ClientId client) {
  const auto of = clients_.find(client);
  if (of != clients_.end()) size_ -= of->second.files.erase(file);
}

bool KeptLayouts::has(FileId file, ClientId client) const {
  const auto of = clients_.find(client);
  return of != clients_.end() && of->second.files.contains(file);
}

bool KeptLayouts::look_at(ClientId id, Client& client, Clock::time_point now,
                          const std::set<std::uint32_t>& away, Due& due) const {
  const bool may_ask = !client.asked_at || now - *client.asked_at >= limits_.ask_again;
  bool ask = !client.understands;
  for (auto& [file, kept] : client.files) {
    const bool lost =
        std::ranges::any_of(kept.ds_ids, [&](auto ds_id) { return away.contains(ds_id); });
    if (lost && may_ask) {
      ask = true;
      kept.recall_at = now + kAnswerTime;
    } else if (kept.recall_at <= now && due.recalled.size() < limits_.recalls_at_once) {
      due.recalled.emplace_back(file, id);
      kept.recall_at = now + limits_.time / 2;
    }
  }
  return ask && may_ask;
}

KeptLayouts::Due KeptLayouts::due(Clock::time_point now, const std::set<std::uint32_t>& away) {
  Due due;
  std::erase_if(clients_, [&](const auto& of) {
    return of.second.files.empty() && now - of.second.seen >= limits_.forget;
  });
  for (auto& [id, client] : clients_) {
    if (!look_at(id, client, now, away, due)) continue;
    client.asked_at = now;
    due.asked.push_back(id);
  }
  return due;
}

void KeptLayouts::answered(ClientId client, bool understood) {
  const auto of = clients_.find(client);
  if (of == clients_.end()) return;
  if (!of->second.understands) of->second.asked_at.reset();  // that was for this answer only
  of->second.understands = understood;
}

}  // namespace weft::mds
