#include "dataserver/targets/target_server.h"

#include <algorithm>

#include "dataserver/targets/target_connection.h"

namespace weft::ds {

bool TargetServer::Shared::add(const std::shared_ptr<Connection>& connection) {
  const MutexLock lock(mutex);
  connections.push_back({.connection = connection});
  return !stopping.load();
}

void TargetServer::Shared::remove(const Connection* connection) {
  const MutexLock lock(mutex);
  std::erase_if(connections,
                [connection](const Entry& one) { return one.connection.get() == connection; });
  if (connections.empty()) none_left.notify_all();
}

std::vector<std::shared_ptr<TargetServer::Connection>> TargetServer::Shared::all() {
  std::vector<std::shared_ptr<Connection>> out;
  const MutexLock lock(mutex);
  for (const Entry& one : connections) out.push_back(one.connection);
  return out;
}

void TargetServer::Shared::retire_others(const std::shared_ptr<Connection>& by,
                                         const TargetHello& hello, const rpc::peer::ClusterKey& key,
                                         std::move_only_function<void()> then) {
  std::vector<std::shared_ptr<Connection>> others;
  {
    const MutexLock lock(mutex);
    for (Entry& one : connections) {
      if (one.connection == by) {
        one.hello = hello;
        one.key = key;
      } else if (one.replaced_by(hello)) {
        others.push_back(one.connection);
      }
    }
  }
  // Called when the last of them lets go of it, or here when there is none.
  struct Last {
    ~Last() { call(); }
    std::move_only_function<void()> call;
  };
  auto last = std::make_shared<Last>();
  last->call = std::move(then);
  for (const auto& connection : others) {
    connection->retire([last]() mutable { last.reset(); });
  }
}

TargetServer::TargetServer(Parts parts) : shared_(std::make_shared<Shared>(std::move(parts))) {}

// Connections left over own their channels, which own them: without threads nobody else will part
// them.
TargetServer::~TargetServer() {
  std::vector<Shared::Entry> left;
  {
    const MutexLock lock(shared_->mutex);
    left.swap(shared_->connections);
  }
  for (const Shared::Entry& one : left) one.connection->abandon();
}

void TargetServer::serve(std::shared_ptr<rpc::Channel> channel) {
  auto connection = std::make_shared<Connection>(shared_, channel);
  const bool welcome = shared_->add(connection);
  // Started either way: a channel that was never started would never close.
  channel->start(connection);
  if (!welcome) return channel->close({Errc::kClosed, "shutting down"});
  connection->start();
}

void TargetServer::keys_changed() {
  std::vector<std::shared_ptr<Connection>> dropped;
  {
    const MutexLock lock(shared_->mutex);
    for (const Shared::Entry& one : shared_->connections) {
      if (one.hello && !shared_->parts.keys->accepts(one.key)) dropped.push_back(one.connection);
    }
  }
  for (const auto& connection : dropped) connection->retire([] {});
}

bool TargetServer::stop(std::chrono::milliseconds limit) {
  shared_->stopping.store(true);
  for (const auto& connection : shared_->all()) connection->retire([] {});
  Shared& shared = *shared_;
  const MutexLock lock(shared.mutex);
  return shared.none_left.wait_for(shared.mutex, limit, [&shared]() WEFT_REQUIRES(shared.mutex) {
    return shared.connections.empty();
  });
}

TargetTimes TargetServer::times() const {
  TargetTimes times;
  for (std::size_t at = 0; at < times.size(); ++at) times[at] = shared_->times[at].total();
  return times;
}

TargetCounts TargetServer::counts() const {
  return {.reads = shared_->reads.load(),
          .writes = shared_->writes.load(),
          .commits = shared_->commits.load(),
          .read_bytes = shared_->read_bytes.load(),
          .write_bytes = shared_->write_bytes.load(),
          .lent_bytes = shared_->lent_bytes.load(),
          .readers = shared_->readers.load(),
          .writers = shared_->writers.load(),
          .errors = shared_->errors.load(),
          .refused = shared_->refused.load(),
          .running = shared_->running.load(),
          .connections = shared_->all().size()};
}

}  // namespace weft::ds
