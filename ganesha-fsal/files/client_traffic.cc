#include "ganesha-fsal/files/client_traffic.h"

namespace weft::mds {

ClientTraffic::Counts* ClientTraffic::of(ClientId client) {
  if (client == 0) return nullptr;
  auto row = rows_.find(client);
  if (row == rows_.end()) {
    if (rows_.size() >= kMost) return nullptr;
    row = rows_.emplace(client, Row{}).first;
  }
  return &row->second.counts;
}

void ClientTraffic::read(ClientId client, std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  if (Counts* counts = of(client)) {
    ++counts->reads;
    counts->read_bytes += bytes;
  }
}

void ClientTraffic::wrote(ClientId client, std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  if (Counts* counts = of(client)) {
    ++counts->writes;
    counts->written_bytes += bytes;
  }
}

std::map<ClientId, ClientTraffic::Counts> ClientTraffic::all() const {
  const MutexLock lock(mutex_);
  std::map<ClientId, Counts> counts;
  for (const auto& [client, row] : rows_) counts.emplace(client, row.counts);
  return counts;
}

void ClientTraffic::look(const std::set<ClientId>& alive) {
  const MutexLock lock(mutex_);
  for (auto at = rows_.begin(); at != rows_.end();) {
    const bool absent = !alive.contains(at->first);
    if (absent && at->second.absent) {
      at = rows_.erase(at);
      continue;
    }
    at->second.absent = absent;
    ++at;
  }
}

}  // namespace weft::mds
