// What the connections of one SessionServer share. Internal to rpc/session.
//
// Threading: any thread; the members are atomic, immutable, or guard themselves.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <set>

#include "rpc/base/in_order_made.h"
#include "rpc/base/log_limit.h"
#include "rpc/base/mutex.h"
#include "rpc/session/client_table.h"
#include "rpc/session/handler.h"
#include "rpc/session/server_options.h"
#include "rpc/session/session_server.h"

namespace weft::rpc {

class ServerConnection;

struct ServerCore {
  ServerCore(SessionServerOptions server_options, OpHandler& op_handler, Clock& clock,
             Random& random)
      : options(std::move(server_options)),
        handler(op_handler),
        table(options, clock, random),
        clients_log(clock),
        sessions_log(clock),
        lost_log(clock) {}

  const SessionServerOptions options;
  OpHandler& handler;
  ClientTable table;
  LogLimit clients_log;   // of EXCHANGE_ID
  LogLimit sessions_log;  // of CREATE_SESSION
  LogLimit lost_log;      // of connections

  std::atomic<std::uint64_t> running{0};
  std::atomic<std::uint64_t> compounds{0};
  std::atomic<std::uint64_t> replays{0};
  std::atomic<std::uint64_t> rejected{0};
  struct Traffic {
    std::atomic<std::uint64_t> connections{0};
    std::atomic<std::uint64_t> calls{0};
    std::atomic<std::uint64_t> bytes_in{0};
    std::atomic<std::uint64_t> bytes_out{0};
  };
  std::array<Traffic, kAllVia.size()> by;  // by Via

  // The open connections, for draining: touched when one comes and goes, never per request.
  Mutex mutex;
  std::set<std::shared_ptr<ServerConnection>, InOrderMade> connections WEFT_GUARDED_BY(mutex);
  std::move_only_function<void()> drained WEFT_GUARDED_BY(mutex);
  std::atomic<bool> draining{false};

  // Calls `drained` once nothing is left: no connection, no compound.
  void check_drained() {
    if (!draining.load()) return;
    std::move_only_function<void()> done;
    {
      const MutexLock lock(mutex);
      if (connections.empty() && running.load() == 0) done = std::exchange(drained, nullptr);
    }
    if (done) done();
  }
};

}  // namespace weft::rpc
