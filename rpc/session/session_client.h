// The client end of NFSv4.1/4.2 sessions: one session with one server, over one or more
// connections, that survives lost connections and restarted servers.
//
// The client connects, does EXCHANGE_ID, CREATE_SESSION and RECLAIM_COMPLETE, and sends compounds
// over the session's slots as many at once as there are slots; the rest wait in a bounded queue.
// SEQUENCE is put in front of each compound here. When a connection is lost, requests in flight
// are sent again with the same slot and sequence, so that each is executed exactly once. When the
// server has forgotten the session (it restarted, or has dropped the key that the client showed), a
// fresh one is made, once what was in flight has been answered: a request that was refused is sent
// again. One that may have been executed under the old session, as its connection is gone, is sent
// again only if the caller said that is safe (CallOptions::idempotent), and fails with kClosed if
// not.
//
// A call may be given up: its deadline passes, or CallOptions::give_up is requested. From then on
// its operations are not sent any more. What was sent already may be carried out yet, until it is
// settled: the server answers, or its slot is used up by a lone SEQUENCE with the same number in
// its place, or the session is gone. CallOptions::unsettled is let go of then.
//
// Threading: call(), close() and state() from any thread; completions are called on the client's
// I/O thread. From within a completion, call() is fine.
//
// Ownership: the client owns its requests; destroying it cancels them (kCancelled). The io_context
// and pool outlive it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "rpc/base/buffer.h"
#include "rpc/base/clock.h"
#include "rpc/nfs4/compound.h"
#include "rpc/onc/auth.h"
#include "rpc/transport/channel.h"

namespace weft::rpc {

struct SessionClientOptions {
  std::string owner;            // co_ownerid: the same over restarts of one client
  nfs4::Verifier verifier = 0;  // changes with each restart of the client
  std::uint32_t minor_version = 1;
  std::uint32_t flags = 0;  // EXCHANGE_ID: EXCHGID4_FLAG_USE_PNFS_DS or _MDS
  // EXCHANGE_ID: the implementation's domain, asked for each time (cluster_session.h).
  std::function<std::string()> domain = [] { return std::string("weft"); };
  AuthSys credential;
  unsigned connections = 1;
  std::uint32_t slots = 64;
  std::uint32_t max_request_bytes = (1U << 20) + 4096;
  std::uint32_t max_response_bytes = (1U << 20) + 4096;
  std::size_t max_waiting = 4096;  // calls queued for a slot; beyond it call() answers kBusy
  std::chrono::milliseconds connect_deadline{10'000};
  std::chrono::milliseconds keep_alive{30'000};   // a lone SEQUENCE when idle
  std::chrono::milliseconds reconnect_least{50};  // back-off between attempts, doubling
  std::chrono::milliseconds reconnect_most{5'000};
};

struct CallOptions {
  std::chrono::milliseconds deadline{60'000};  // from call() to completion, waiting included
  bool cache_this = false;  // ask the server to keep the whole reply for a retransmission
  bool idempotent = false;  // may be executed again under a new session: READ, WRITE, COMMIT
  bool urgent = false;      // Message::set_urgent()
  // Requested on the client's I/O thread: the caller wants no answer any more. `done` is still
  // called, with the answer, kCancelled or kTimedOut.
  std::stop_token give_up = {};
  // Kept until nothing of the call can be carried out any more; let go of on the I/O thread.
  std::shared_ptr<const void> unsettled = {};
};

class SessionClient {
 public:
  enum class State { kConnecting, kReady, kClosed };
  using Done = std::move_only_function<void(Result<nfs4::CompoundResult>)>;

  SessionClient(boost::asio::io_context& context, Dial dial, SessionClientOptions options);
  ~SessionClient();
  SessionClient(const SessionClient&) = delete;
  SessionClient& operator=(const SessionClient&) = delete;

  // `ops` without SEQUENCE; the results come without SEQUENCE's too. A compound whose operation
  // failed is a success here: look at CompoundResult::status. Errors: kTimedOut, kClosed, kBusy,
  // kCancelled, kUnreachable (the first connection could not be made in the call's deadline),
  // kProtocol.
  void call(std::vector<nfs4::OpArgs> ops, CallOptions options, Done done);
  // Calls back once the session stands, or with why it could not be made within `deadline`.
  void when_ready(std::chrono::milliseconds deadline, std::move_only_function<void(Result<>)> done);
  // Makes its connections anew, when no request is under way: for at most 2 s new ones wait for
  // that. If it does not come to it, nothing changes.
  void renew_connections();
  // The server's addresses are others: ends its connections and dials at once. What is under way
  // goes by the new ones, and is executed once as ever.
  void reconnect();
  // DESTROY_SESSION and DESTROY_CLIENTID as a courtesy, then everything closes.
  void close(std::move_only_function<void()> done);

  [[nodiscard]] State state() const;
  // What the server answered; meaningful once kReady.
  [[nodiscard]] nfs4::ExchangeIdOk server() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace weft::rpc
