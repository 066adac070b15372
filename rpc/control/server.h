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
// Bounds: connections, calls under way for each data server, message size, and the time of every
// call and of the handshake.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "layout/net_address.h"
#include "rpc/base/error.h"
#include "rpc/control/keyring.h"
#include "rpc/control/messages.h"

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

  // These come from registered data servers only.
  // Returns the lease that the data server is given. Must not block.
  virtual Lease on_heartbeat(std::uint32_t ds_id, const Heartbeat& heartbeat) = 0;
  virtual void on_query_size(std::uint32_t ds_id, const ObjectId& object, Done<FileSize> done) = 0;
  virtual void on_report_size(std::uint32_t ds_id, const ReportSize& report, Done<void> done) = 0;
  virtual void on_locate(std::uint32_t /*ds_id*/, std::uint32_t /*wanted*/, Done<Located> done) {
    done(fail(Errc::kNotSupported, "data servers are not told of each other"));
  }
  // Success means that it is durable: the data server acknowledges writes without that copy then.
  virtual void on_copy_missed(std::uint32_t /*ds_id*/, const CopyMissed& /*missed*/,
                              Done<void> done) {
    done(fail(Errc::kNotSupported, "no journal of missed copies"));
  }
};

class Server {
 public:
  struct Config {
    layout::NetAddress listen;  // port 0: any that is free
    std::shared_ptr<const Keyring> keys;
    std::size_t max_connections = 1024;
    std::size_t max_calls = 4096;  // under way at one data server
    std::chrono::milliseconds handshake_timeout{5000};
    std::chrono::milliseconds silence_timeout{10000};  // nothing heard: the connection is dead
  };
  using Timeout = std::chrono::milliseconds;

  Server(Config config, ServerEvents& events);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server();

  // Binds, listens and starts the thread. The error of the system call.
  [[nodiscard]] Result<> start();
  void stop();
  // Where it listens, once started.
  [[nodiscard]] layout::NetAddress address() const;

  // Requests to one data server. kUnreachable when it is not connected, or the connection breaks
  // before it answers (the request may have been carried out, or not); kTimedOut; kBusy when
  // max_calls are under way; else the data server's own error.
  void fence(std::uint32_t ds_id, std::vector<Fence> fences, Timeout timeout, Done<void> done);
  void truncate(std::uint32_t ds_id, const ObjectId& object, std::uint64_t size, Timeout timeout,
                Done<ObjectStat> done);
  void remove(std::uint32_t ds_id, std::vector<ObjectId> objects, Timeout timeout, Done<void> done);
  void stat(std::uint32_t ds_id, const ObjectId& object, Timeout timeout, Done<ObjectStat> done);
  void allocate(std::uint32_t ds_id, const Range& range, Timeout timeout, Done<void> done);
  void punch(std::uint32_t ds_id, const Range& range, Timeout timeout, Done<void> done);
  void forget_missed(std::uint32_t ds_id, const ForgetMissed& forget, Timeout timeout,
                     Done<void> done);
  // Answered when the job has begun, and again when it is under way already.
  void resync(std::uint32_t ds_id, const Resync& request, Timeout timeout, Done<void> done);
  void resync_status(std::uint32_t ds_id, std::uint64_t job, Timeout timeout,
                     Done<ResyncProgress> done);
  // Answered when nothing of the job runs any more; a job that is not known is no error.
  void resync_cancel(std::uint32_t ds_id, std::uint64_t job, Timeout timeout, Done<void> done);
  void scrub(std::uint32_t ds_id, const Scrub& request, Timeout timeout, Done<void> done);
  void give_up(std::uint32_t ds_id, const GiveUp& request, Timeout timeout, Done<void> done);
  void list(std::uint32_t ds_id, const ListFrom& from, Timeout timeout, Done<Listed> done);

  // Closes the data server's connection, if it has one.
  void disconnect(std::uint32_t ds_id);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace weft::rpc::control
