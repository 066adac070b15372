// The metadata server's NFSv4.1 sessions with its data servers, one each, made on first use.
//
// A data server whose addresses changed keeps its session: what is under way goes by the new ones.
// Answers NFS4ERR_DELAY and NFS4ERR_GRACE are waited out here, within the call's deadline.
//
// A data server on this machine is reached through shared memory, if the pool has an arena and it
// says where (rpc/session/local_route.h); others, if `rdma` says so, by RDMA where both have it,
// and by TCP else (rpc/session/server_dial.h). The session, and with it what is executed once, is
// the same by any way.
//
// A data server that is away for a moment is waited for, within the deadline too: it may have been
// restarted. A call ends as soon as its data server is known to be gone: who made it has another
// way, or tells a client to come later.
//
// A call that changes an object may be given up when it was sent already: its data server is gone
// or silent. It may be carried out after that, so nothing else changes that object there until it
// is known to have ended (SessionClient, CallOptions::unsettled): such calls wait, within their
// deadlines, and unsettled() tells others to. So do they while a cut or a hole may be made late
// (object_calls.h), and at a data server that may carry out yet what an earlier run of the metadata
// server sent (Registry::missing_fences()).
//
// Threading: call() from any thread; completions run on the one I/O thread of the sessions.
//
// Ownership: registry and pool outlive it. stop() completes everything that is under way with
// kClosed and joins.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ganesha-fsal/cluster/given_up.h"
#include "ganesha-fsal/cluster/registry.h"
#include "layout/object_id.h"
#include "rpc/base/buffer.h"
#include "rpc/base/clock.h"
#include "rpc/base/in_order_made.h"
#include "rpc/base/mutex.h"
#include "rpc/nfs4/compound.h"
#include "rpc/peer/keyring.h"
#include "rpc/session/local_route.h"
#include "rpc/session/session_client.h"
#include "rpc/transport/io_threads.h"
#include "rpc/transport/rdma/rdma_dialer.h"

namespace weft::mds {

class ServerSessions : public std::enable_shared_from_this<ServerSessions> {
 public:
  using Done = control::Done<rpc::nfs4::CompoundResult>;
  // Makes the operations of a compound; called again for each attempt.
  using MakeOps = std::move_only_function<Result<std::vector<rpc::nfs4::OpArgs>>()>;
  // Whether a data server is known to be gone, rather than being restarted. Any thread; at once.
  using IsGone = std::function<bool(std::uint32_t ds_id)>;

  // `keys`: to show data servers who it is (cluster_session.h). `random` is asked now only.
  ServerSessions(std::string owner, std::shared_ptr<const rpc::peer::Keyring> keys,
                 Registry& registry, BufferPool& pool, IsGone is_gone, bool rdma,
                 const weft::Clock& clock, weft::Random& random);
  ServerSessions(const ServerSessions&) = delete;
  ServerSessions& operator=(const ServerSessions&) = delete;
  ~ServerSessions();

  void start() { threads_.start(); }
  void stop();

  // A compound of operations that may be done twice. Success means that every operation was
  // NFS4_OK; else the first failure as an Error. kUnreachable, kTimedOut, kClosed; kBusy when the
  // data server answers, but with NFS4ERR_DELAY all the time.
  // `changes`: the object that it changes.
  void call(std::uint32_t ds_id, MakeOps make, std::chrono::milliseconds timeout, Done done,
            std::optional<layout::ObjectId> changes = {});
  // A change of the object was given up, and may be carried out there yet. Any thread.
  [[nodiscard]] bool unsettled(std::uint32_t ds_id, const layout::ObjectId& object) const;
  // How a data server is reached: nothing is known before there is a session.
  struct Route {
    rpc::Transport transport = rpc::Transport::kNone;
    std::uint64_t shared_bytes = 0;  // of data, through shared memory, both ways
  };
  [[nodiscard]] Route route(std::uint32_t ds_id) const;
  [[nodiscard]] bool is_gone(std::uint32_t ds_id) const { return is_gone_ && is_gone_(ds_id); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Session {
    std::uint32_t address_generation = 0;
    std::shared_ptr<rpc::SessionClient> client;
    std::shared_ptr<rpc::LocalRoute> route;
  };
  struct Attempt;

  [[nodiscard]] Result<std::shared_ptr<rpc::SessionClient>> session(std::uint32_t ds_id);
  void run(const std::shared_ptr<Attempt>& attempt);
  [[nodiscard]] bool not_now(std::uint32_t ds_id, const layout::ObjectId& object) const;
  void answered(const std::shared_ptr<Attempt>& attempt, Result<rpc::nfs4::CompoundResult> result);
  void again(const std::shared_ptr<Attempt>& attempt);
  // Calls must not outlast their data servers: looks at that while there are any.
  void watch();
  void end_hopeless();
  static void complete(Attempt& attempt, Result<rpc::nfs4::CompoundResult> result);
  // Completes an attempt, unless stop() has.
  void finish(const std::shared_ptr<Attempt>& attempt, Result<rpc::nfs4::CompoundResult> result);
  [[nodiscard]] Session make_session(const ServerView& view);
  // To the addresses that it has whenever it dials; `better` as ServerDialOptions::on_better.
  [[nodiscard]] rpc::Dial dial(std::uint32_t ds_id, std::function<void()> better);
  // To shared memory, if a session that went by the network finds it by now.
  void look(const Session& session);

  const std::string owner_;
  const std::shared_ptr<const rpc::peer::Keyring> keys_;
  const std::uint64_t boot_;  // the client verifier of EXCHANGE_ID
  Registry& registry_;
  BufferPool& pool_;
  const IsGone is_gone_;
  const weft::Clock& clock_;
  rpc::IoThreads threads_{1, false};
  std::unique_ptr<rpc::rdma::Dialer> dialer_;                   // null: RDMA is not to be used
  boost::asio::steady_timer watch_timer_{threads_.context(0)};  // I/O thread only
  const std::shared_ptr<GivenUp> given_up_;                     // the registry's
  mutable Mutex mutex_;
  std::map<std::uint32_t, Session> sessions_ WEFT_GUARDED_BY(mutex_);
  bool stopped_ WEFT_GUARDED_BY(mutex_) = false;
  std::set<std::shared_ptr<Attempt>, InOrderMade> under_way_
      WEFT_GUARDED_BY(mutex_);                     // each is completed once, by finish() or stop()
  bool watching_ WEFT_GUARDED_BY(mutex_) = false;  // watch() runs, or will
};

}  // namespace weft::mds
