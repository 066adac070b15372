// A data server's end of the control protocol: it connects to the metadata server, proves that it
// has the cluster key, registers, sends heartbeats, and serves the metadata server's requests. When
// the connection breaks it connects again, waiting longer each time up to a limit.
//
// Threading: a Client runs one thread of its own. Its methods may be called from any thread. Events
// and completions run on the client's thread and must not block; the Done an event is given may be
// called from any thread, once, also after the connection is gone (it is then ignored).
//
// Ownership: the ClientEvents outlive the Client. stop(), or destruction, completes every call that
// is under way with kClosed and joins the thread; no event or completion runs after it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "rpc/base/clock.h"
#include "rpc/base/error.h"
#include "rpc/control/heartbeat.h"
#include "rpc/control/messages.h"
#include "rpc/peer/keyring.h"
#include "rpc/peer/secure_channel.h"

namespace weft::rpc::control {

class ClientEvents {
 public:
  ClientEvents() = default;
  ClientEvents(const ClientEvents&) = delete;
  ClientEvents& operator=(const ClientEvents&) = delete;
  virtual ~ClientEvents() = default;

  // What to register as; asked at every connect. Must not block.
  [[nodiscard]] virtual Register registration() = 0;
  // The metadata server's answer. Heartbeats begin when `done` succeeds: cluster and
  // ds_id are then on stable storage and the fences are in force. An error closes the connection.
  // Requests of the metadata server may come before that.
  virtual void on_registered(Registered answer, Done<void> done) = 0;
  // The connection, registered or not, is gone, or could not be made; another try follows.
  virtual void on_disconnected(const Error& why) = 0;
  [[nodiscard]] virtual Heartbeat heartbeat() = 0;
  // A heartbeat sent at `sent`, by Config::clock, was answered: with a lease, or none (0).
  virtual void on_lease(TimePoint /*sent*/, std::chrono::seconds /*length*/) {}
};

class Client {
 public:
  struct Config {
    std::string mds_host;  // name or numeric address
    std::uint16_t mds_port = 0;
    std::shared_ptr<const peer::Keyring> keys;
    peer::Versions versions = peer::kVersions;
    std::size_t max_calls = 4096;                     // under way
    std::chrono::milliseconds connect_timeout{5000};  // connecting, proving, registering, each
    std::chrono::milliseconds backoff_min{100};
    std::chrono::milliseconds backoff_max{1000};
    std::chrono::milliseconds silence_timeout{10000};  // nothing heard: the connection is dead
    const Clock* clock = &boottime_clock();            // for leases only
  };
  using Timeout = std::chrono::milliseconds;

  // `requests` answers what the metadata server asks. Its handlers run on the client's thread, and
  // what they refer to outlives the Client.
  Client(Config config, ClientEvents& events, peer::Table<> requests = {});
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  void start();
  void stop();
  [[nodiscard]] bool registered() const;
  // What to register as has changed: does so over another connection.
  void register_again();

  // A request to the metadata server. kUnreachable when not registered or the connection breaks
  // before the answer; kTimedOut; kBusy when max_calls are under way; else the metadata server's
  // own error (kStale: there is no such file).
  template <peer::Request R>
  void call(const R& request, Timeout timeout, Done<typename R::Reply> done) {
    send(R::kVerb, peer::to_bytes(request), timeout,
         peer::expect<typename R::Reply>(std::move(done)));
  }

 private:
  void send(std::uint32_t verb, peer::Bytes arguments, Timeout timeout, Done<peer::Bytes> done);

  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace weft::rpc::control
