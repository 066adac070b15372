// One connection of a SessionServer: reads RPC calls, starts a CompoundRun for each COMPOUND, and
// holds reading back while too many run. Internal to rpc/session.
//
// Threading: the channel's I/O thread, but for begin_drain(), which any thread may call.
//
// Ownership: the channel owns its user (this) until it closes; runs hold a reference too, so the
// connection outlives the requests that came over it.
#pragma once

#include <memory>
#include <vector>

#include "rpc/base/in_order_made.h"
#include "rpc/nfs4/io_ops.h"
#include "rpc/onc/rpc_header.h"
#include "rpc/session/server_core.h"
#include "rpc/transport/channel.h"

namespace weft::rpc {

class ServerConnection final : public ChannelUser,
                               public Numbered,
                               public std::enable_shared_from_this<ServerConnection> {
 public:
  ServerConnection(std::shared_ptr<ServerCore> core, std::shared_ptr<Channel> channel, Via via);

  void on_record(ReceivedRecord record) override;
  [[nodiscard]] bool is_awaited() const override { return running_ > 0; }
  void on_closed(const Error& why) override;

  // Takes no more requests; closes when the running ones are answered. The caller holds the core's
  // mutex and found this in its set.
  void begin_drain();

  // Lets go of the channel. Only when its I/O thread has ended.
  void abandon();

  // For runs. -----------------------------------------------------------------------------------
  [[nodiscard]] ServerCore& core() { return *core_; }
  // Where it comes from: an IP address, or what the transport calls it.
  [[nodiscard]] const std::string& host() const { return host_; }
  [[nodiscard]] bool by_rdma() const { return via_ == Via::kRdma; }
  // While the connection stands.
  [[nodiscard]] const std::shared_ptr<Channel>& channel() const { return channel_; }
  // Sends a finished reply; nothing happens when the connection is gone.
  void reply(Message message);
  // The session, from this connection's cache or the table; nullptr when there is none. The
  // reference is good until the next call.
  [[nodiscard]] const std::shared_ptr<ServerSession>& session(const nfs4::SessionId& id);
  void run_started();
  void run_ended();

 private:
  [[nodiscard]] ServerCore::Traffic& traffic() { return core_->by[static_cast<std::size_t>(via_)]; }
  void refuse(const Refusal& refusal);
  // Whether the connection may go on as one of the session's.
  [[nodiscard]] bool join(const ServerSession& session);
  void close_if_drained();

  // A client uses one session; a few are enough for those that share a connection.
  static constexpr std::size_t kCachedSessions = 4;

  const std::shared_ptr<ServerCore> core_;
  std::shared_ptr<Channel> channel_;  // null once closed
  const std::string host_;
  const Via via_;
  std::vector<std::shared_ptr<ServerSession>> sessions_;
  std::size_t replace_next_ = 0;
  std::size_t running_ = 0;
  bool paused_ = false;
  bool draining_ = false;
};

}  // namespace weft::rpc
