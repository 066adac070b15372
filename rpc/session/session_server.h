// The server end of NFSv4.1/4.2 sessions: takes channels, answers RPC and session operations, and
// calls an OpHandler for the rest (handler.h).
//
// The rules are in sans-io parts, tested alone: client_table.h (EXCHANGE_ID, CREATE_SESSION and
// their kin), server_session.h (slots, exactly once). This class is their glue to channels.
//
// Threading: serve() on the channel's I/O thread; everything else from any thread. The data path
// takes no lock: a connection finds its sessions in a cache of its own, and a slot is claimed with
// one atomic exchange. EXCHANGE_ID, CREATE_SESSION and the like take the client table's mutex.
//
// Lifetime: handler, clock and random outlive the server. Destroy it when drain() has called back,
// or when the I/O threads have been stopped; connections still open are then let go of.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <span>

#include "rpc/base/clock.h"
#include "rpc/onc/record_reader.h"
#include "rpc/session/handler.h"
#include "rpc/session/server_options.h"
#include "rpc/transport/channel.h"

namespace weft::rpc {

// What a connection goes by.
enum class Via : std::uint8_t { kTcp, kRdma, kSharedMemory };
inline constexpr std::array kAllVia{Via::kTcp, Via::kRdma, Via::kSharedMemory};

struct SessionServerCounts {
  // Of one transport. Bytes are those of messages, with their bulk data.
  struct Traffic {
    std::uint64_t connections = 0;  // now
    std::uint64_t calls = 0;        // since the start
    std::uint64_t bytes_in = 0;
    std::uint64_t bytes_out = 0;
  };
  std::uint64_t connections = 0;  // now
  std::uint64_t clients = 0;      // now
  std::uint64_t sessions = 0;     // now
  std::uint64_t running = 0;      // compounds now
  std::uint64_t compounds = 0;    // since the start
  std::uint64_t replays = 0;      // answered from a slot's cache, or dropped
  std::uint64_t rejected = 0;     // records and compounds answered with an RPC or session error
  std::array<Traffic, kAllVia.size()> by{};  // by Via
};

class SessionServer {
 public:
  SessionServer(SessionServerOptions options, OpHandler& handler, Clock& clock, Random& random);
  ~SessionServer();
  SessionServer(const SessionServer&) = delete;
  SessionServer& operator=(const SessionServer&) = delete;

  // What a client sees by RDMA is a server of its own (client_table.h).
  void serve(std::shared_ptr<Channel> channel, Via via = Via::kTcp);
  // What a large record is worth (TcpLimits::look): a stranger's memory, when it names a session;
  // an answer, when that is one of an earlier life of this server, or has expired. Clients send
  // what was not answered again over a new connection, before anything else. And anybody's an
  // answer, when it is a WRITE with a handle that is not genuine (OpHandler::genuine()).
  [[nodiscard]] Glance look_at(std::span<const std::byte> head, Standing of) const;

  // Forgets clients whose lease ran out, or whose key was dropped, and that have no request
  // running. Call now and then.
  void expire();
  // Servers that showed another key than these (by fingerprint) are to show one of them. Call it
  // when the keys that SessionServerOptions::server_key knows have changed.
  void keys_changed(std::span<const std::uint64_t> accepted);
  // Takes no new requests, answers those running, closes every connection; `done` is called on
  // some I/O thread (or at once) when the last is gone.
  void drain(std::move_only_function<void()> done);

  [[nodiscard]] SessionServerCounts counts() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace weft::rpc
