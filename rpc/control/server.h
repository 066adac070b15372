// The metadata server's end of the control protocol: data servers connect to it and register.
//
// Threading: a Server runs one thread of its own. Its methods may be called from any thread. Events
// and completions run on the server's thread and must not block; the Done an event is given may be
// called from any thread, once, also after the connection is gone (it is then ignored).
//
// Ownership: the ServerEvents outlive the Server. stop(), or destruction, completes every call that
// is under way with kClosed and joins the thread; no event or completion runs after it.
//
// A connection under a cluster key that is not the one in use any more is closed: the data server
// connects again, if it has the one in use. Nothing is asked of one that has not.
//
// A connection whose other end has not shown yet that it has the key is a stranger's. Of those
// there are few, in all and from one address, and a new one takes the place of the oldest:
// strangers cannot keep data servers out.
//
// Bounds: connections, calls under way for each data server, message size, and the time of every
// call and of the handshake.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "layout/net_address.h"
#include "rpc/base/error.h"
#include "rpc/control/messages.h"
#include "rpc/peer/keyring.h"
#include "rpc/peer/secure_channel.h"

namespace weft::rpc::control {

class ServerEvents {
 public:
  ServerEvents() = default;
  ServerEvents(const ServerEvents&) = delete;
  ServerEvents& operator=(const ServerEvents&) = delete;
  virtual ~ServerEvents() = default;

  // `from` is the address the connection comes from. An error refuses the data server. Success
  // makes this the data server's connection, from the moment the answer is sent: on_connected
  // follows. An older connection of the same data server is closed first.
  virtual void on_register(const layout::NetAddress& from, Register request,
                           Done<Registered> done) = 0;
  virtual void on_connected(std::uint32_t ds_id) = 0;
  virtual void on_disconnected(std::uint32_t ds_id, const Error& why) = 0;
  // A connection ended that never came to register: of somebody who has not our key, or speaks
  // something else.
  virtual void on_dropped(const layout::NetAddress& /*from*/, const Error& /*why*/) {}
};

class Server {
 public:
  struct Config {
    layout::NetAddress listen;  // port 0: any that is free
    std::shared_ptr<const peer::Keyring> keys;
    peer::Versions versions = peer::kVersions;
    std::size_t max_connections = 4096;  // of who has the key
    std::size_t max_strangers = 256;
    std::size_t max_strangers_per_address = 32;
    std::size_t max_calls = 4096;  // under way at one data server
    std::chrono::milliseconds handshake_timeout{5000};
    std::chrono::milliseconds silence_timeout{10000};  // nothing heard: the connection is dead
  };
  using Timeout = std::chrono::milliseconds;

  // `requests` answers what registered data servers ask, and is told which of them does. Its
  // handlers run on the server's thread, and what they refer to outlives the Server.
  Server(Config config, ServerEvents& events, peer::Table<std::uint32_t> requests);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server();

  // Binds, listens and starts the thread. The error of the system call.
  [[nodiscard]] Result<> start();
  void stop();
  // Where it listens, once started.
  [[nodiscard]] layout::NetAddress address() const;

  // A request to one data server. kUnreachable when it is not connected, or the connection breaks
  // before it answers (the request may have been carried out, or not); kTimedOut; kBusy when
  // max_calls are under way; else the data server's own error.
  template <peer::Request R>
  void call(std::uint32_t ds_id, const R& request, Timeout timeout, Done<typename R::Reply> done) {
    send(ds_id, R::kVerb, peer::to_bytes(request), timeout,
         peer::expect<typename R::Reply>(std::move(done)));
  }
  // The same, of a request that is encoded already.
  void send(std::uint32_t ds_id, std::uint32_t verb, peer::Bytes arguments, Timeout timeout,
            Done<peer::Bytes> done);

  // Closes the data server's connection, if it has one.
  void disconnect(std::uint32_t ds_id);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace weft::rpc::control
