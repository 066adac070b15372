#include "rpc/session/session_server.h"

#include <spdlog/spdlog.h>

#include "rpc/nfs4/payload_locator.h"
#include "rpc/session/server_connection.h"

namespace weft::rpc {

struct SessionServer::Impl : ServerCore {
  using ServerCore::ServerCore;
};

SessionServer::SessionServer(SessionServerOptions options, OpHandler& handler, Clock& clock,
                             Random& random)
    : impl_(std::make_shared<Impl>(std::move(options), handler, clock, random)) {}

SessionServer::~SessionServer() {
  // Connections left over own their channels, which own them: without threads nobody else will
  // part them.
  std::set<std::shared_ptr<ServerConnection>, InOrderMade> left;
  {
    const MutexLock lock(impl_->mutex);
    left.swap(impl_->connections);
  }
  for (const auto& connection : left) connection->abandon();
}

void SessionServer::serve(std::shared_ptr<Channel> channel, Via via) {
  auto connection = std::make_shared<ServerConnection>(impl_, channel, via);
  bool draining = false;
  {
    const MutexLock lock(impl_->mutex);
    draining = impl_->draining;
    impl_->connections.insert(connection);
  }
  // Started either way: a channel that was never started would never close.
  channel->start(connection);
  if (draining) channel->close(Error{Errc::kClosed, "the server is going down"});
}

// A client has shown its session, so that is not looked up: the table has a lock.
Glance SessionServer::look_at(std::span<const std::byte> head, Standing of) const {
  // A server that has lost its connection goes on with what was not answered, which may be large:
  // its session, which nobody else knows, has shown before that it is a server.
  Glance take = Glance::kTake;
  if (of == Standing::kStranger) {
    const auto session = nfs4::locate_session(head);
    if (!session) return Glance::kRefuse;
    const auto found = impl_->table.find(*session);
    if (found == nullptr) return Glance::kSkip;
    if (found->client().info.server) take = Glance::kTakeOfServer;
  }
  const auto handle = nfs4::locate_handle(head);
  return handle && !impl_->handler.genuine(*handle) ? Glance::kSkip : take;
}

void SessionServer::expire() { impl_->table.expire(); }

void SessionServer::keys_changed(std::span<const std::uint64_t> accepted) {
  const std::size_t dropped = impl_->table.keys_changed(accepted);
  if (dropped == 0) return;
  spdlog::info("event=server_sessions_end clients={} why=\"dropped key\"", dropped);
}

void SessionServer::drain(std::move_only_function<void()> done) {
  {
    const MutexLock lock(impl_->mutex);
    impl_->drained = std::move(done);
    impl_->draining = true;
    for (const auto& connection : impl_->connections) connection->begin_drain();
  }
  impl_->check_drained();
}

SessionServerCounts SessionServer::counts() const {
  SessionServerCounts out;
  {
    const MutexLock lock(impl_->mutex);
    out.connections = impl_->connections.size();
  }
  for (std::size_t via = 0; via < out.by.size(); ++via) {
    const ServerCore::Traffic& now = impl_->by[via];
    out.by[via] = {.connections = now.connections.load(std::memory_order_relaxed),
                   .calls = now.calls.load(std::memory_order_relaxed),
                   .bytes_in = now.bytes_in.load(std::memory_order_relaxed),
                   .bytes_out = now.bytes_out.load(std::memory_order_relaxed)};
  }
  out.clients = impl_->table.clients();
  out.sessions = impl_->table.sessions();
  out.running = impl_->running.load(std::memory_order_relaxed);
  out.compounds = impl_->compounds.load(std::memory_order_relaxed);
  out.replays = impl_->replays.load(std::memory_order_relaxed);
  out.rejected = impl_->rejected.load(std::memory_order_relaxed);
  return out;
}

}  // namespace weft::rpc
