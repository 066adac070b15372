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
#include <vector>

#include "rpc/base/clock.h"
#include "rpc/base/error.h"
#include "rpc/control/keyring.h"
#include "rpc/control/messages.h"

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
  // A heartbeat sent at `sent`, by Config::clock, was answered with a lease.
  virtual void on_lease(TimePoint /*sent*/, std::chrono::seconds /*length*/) {}

  // Requests of the metadata server. Success means: on stable storage.
  virtual void on_fence(std::vector<Fence> fences, Done<void> done) = 0;
  virtual void on_truncate(const ObjectId& object, std::uint64_t size, Done<ObjectStat> done) = 0;
  virtual void on_remove(std::vector<ObjectId> objects, Done<void> done) = 0;
  virtual void on_stat(const ObjectId& object, Done<ObjectStat> done) = 0;
  virtual void on_allocate(const Range& range, Done<void> done) = 0;
  virtual void on_punch(const Range& range, Done<void> done) = 0;
  // Mirroring; a data server without it answers so.
  virtual void on_forget_missed(const ForgetMissed& /*forget*/, Done<void> done) {
    done(fail(Errc::kNotSupported, "no mirroring"));
  }
  virtual void on_resync(Resync /*request*/, Done<void> done) {
    done(fail(Errc::kNotSupported, "no mirroring"));
  }
  virtual void on_resync_status(std::uint64_t /*job*/, Done<ResyncProgress> done) {
    done(fail(Errc::kNotSupported, "no mirroring"));
  }
  virtual void on_resync_cancel(std::uint64_t /*job*/, Done<void> done) {
    done(fail(Errc::kNotSupported, "no mirroring"));
  }
  // kNotSupported: there is no parity group; kBusy: a scrub goes on. One that is to end and is
  // not there is no error.
  virtual void on_scrub(const Scrub& /*request*/, Done<void> done) {
    done(fail(Errc::kNotSupported, "no parity group"));
  }
  // kInvalid: the group does not wait for that target, or not for it alone.
  virtual void on_give_up(const GiveUp& /*request*/, Done<void> done) {
    done(fail(Errc::kNotSupported, "no parity group"));
  }
  // kNotSupported: its store cannot say what it has.
  virtual void on_list(const ListFrom& /*from*/, Done<Listed> done) {
    done(fail(Errc::kNotSupported, "no list of objects"));
  }
};

class Client {
 public:
  struct Config {
    std::string mds_host;  // name or numeric address
    std::uint16_t mds_port = 0;
    std::shared_ptr<const Keyring> keys;
    std::size_t max_calls = 4096;                     // under way
    std::chrono::milliseconds connect_timeout{5000};  // connecting, proving, registering, each
    std::chrono::milliseconds backoff_min{100};
    std::chrono::milliseconds backoff_max{1000};
    std::chrono::milliseconds silence_timeout{10000};  // nothing heard: the connection is dead
    const Clock* clock = &boottime_clock();            // for leases only
  };
  using Timeout = std::chrono::milliseconds;

  Client(Config config, ClientEvents& events);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  void start();
  void stop();
  [[nodiscard]] bool registered() const;

  // Requests to the metadata server. kUnreachable when not registered or the connection breaks
  // before the answer; kTimedOut; kBusy when max_calls are under way; else the metadata server's
  // own error (kStale: there is no such file).
  void query_size(const ObjectId& object, Timeout timeout, Done<FileSize> done);
  void report_size(const ReportSize& report, Timeout timeout, Done<void> done);
  // Where another data server is. kNotFound: there is no such one.
  void locate(std::uint32_t ds_id, Timeout timeout, Done<Located> done);
  void copy_missed(const CopyMissed& missed, Timeout timeout, Done<void> done);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace weft::rpc::control
