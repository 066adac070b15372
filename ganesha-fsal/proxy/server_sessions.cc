#include "ganesha-fsal/proxy/server_sessions.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <future>
#include <iterator>
#include <stop_token>
#include <utility>

#include "rpc/base/clock.h"
#include "rpc/session/cluster_session.h"
#include "rpc/session/server_dial.h"

namespace weft::mds {
namespace {

using rpc::nfs4::CompoundResult;
using rpc::nfs4::Status;

// Between attempts that a data server answered with DELAY.
constexpr std::chrono::milliseconds kRest{100};
constexpr std::chrono::milliseconds kConnectDeadline{3000};
// Between looks at whether a data server is gone that somebody waits for.
constexpr std::chrono::milliseconds kLook{200};

}  // namespace

struct ServerSessions::Attempt : Numbered {
  Attempt(std::uint32_t to, MakeOps ops, Clock::time_point until, Done then,
          boost::asio::any_io_executor on)
      : ds_id(to),
        make(std::move(ops)),
        deadline(until),
        done(std::move(then)),
        timer(std::move(on)) {}

  std::uint32_t ds_id;
  MakeOps make;
  Clock::time_point deadline;
  Done done;
  boost::asio::steady_timer timer;
  std::optional<layout::ObjectId> changes;
  bool delayed = false;                   // it has been answered; I/O thread only
  std::stop_source stop;                  // of what was handed to a session
  std::weak_ptr<GivenUp::Change> change;  // the same, if it changes an object; guarded by mutex_
};

// Handlers that never run keep their attempt until the I/O context goes, and `done` may own what
// owns that context: it is let go of here, or neither would ever be freed.
void ServerSessions::complete(Attempt& attempt, Result<CompoundResult> result) {
  Done done = std::move(attempt.done);
  done(std::move(result));
}

ServerSessions::ServerSessions(std::string owner, std::shared_ptr<const rpc::peer::Keyring> keys,
                               Registry& registry, BufferPool& pool, IsGone is_gone, bool rdma,
                               const weft::Clock& clock, weft::Random& random)
    : owner_(std::move(owner)),
      keys_(std::move(keys)),
      boot_(random.u64()),
      registry_(registry),
      pool_(pool),
      is_gone_(std::move(is_gone)),
      clock_(clock),
      given_up_(registry.given_up()) {
  if (rdma) dialer_ = std::make_unique<rpc::rdma::Dialer>(threads_);
}

ServerSessions::~ServerSessions() { stop(); }

void ServerSessions::stop() {
  std::map<std::uint32_t, Session> sessions;
  {
    const MutexLock lock(mutex_);
    if (std::exchange(stopped_, true)) return;
    sessions = std::exchange(sessions_, {});
  }
  std::promise<void> ended;
  boost::asio::post(threads_.context(0), [&] {
    sessions.clear();  // on the I/O thread, where sessions are destroyed
    // After what that has posted: connections are closed.
    boost::asio::post(threads_.context(0), [&] { ended.set_value(); });
  });
  ended.get_future().wait();
  dialer_.reset();
  threads_.stop();
  // No I/O thread completes anything any more; a caller may still be inside call().
  std::set<std::shared_ptr<Attempt>, InOrderMade> left;
  {
    const MutexLock lock(mutex_);
    left = std::exchange(under_way_, {});
  }
  for (const auto& attempt : left) {
    complete(*attempt, fail(Errc::kClosed, "shutting down"));
  }
}

void ServerSessions::finish(const std::shared_ptr<Attempt>& attempt,
                            Result<CompoundResult> result) {
  std::shared_ptr<GivenUp::Change> change;
  {
    const MutexLock lock(mutex_);
    if (under_way_.erase(attempt) == 0) return;
    change = attempt->change.lock();
  }
  attempt->stop.request_stop();
  if (change != nullptr) change->give_up();  // it was sent, and is not settled
  complete(*attempt, std::move(result));
}

ServerSessions::Session ServerSessions::make_session(const ServerView& view) {
  auto& context = threads_.context(0);
  const std::uint32_t ds_id = view.record.id;
  Session session{.address_generation = view.record.address_generation, .client = {}, .route = {}};
  // What is told of a better connection is the session that is to go to it; a route that has found
  // shared memory meanwhile stays there.
  struct Told {
    std::weak_ptr<rpc::LocalRoute> route;
    std::weak_ptr<rpc::SessionClient> client;
  };
  const auto told = std::make_shared<Told>();
  const auto better = [told] {
    const auto route = told->route.lock();
    const auto client = told->client.lock();
    if (route == nullptr || client == nullptr) return;
    if (route->transport() == rpc::Transport::kTcp) client->renew_connections();
  };
  session.route = std::make_shared<rpc::LocalRoute>(
      rpc::LocalRoute::Parts{.context = context,
                             .pool = pool_,
                             .name = std::to_string(ds_id),
                             .where =
                                 [this, ds_id] {
                                   const auto now = registry_.find(ds_id);
                                   return now ? now->local : LocalEndpoint{};
                                 },
                             .server = view.record.store,
                             .network = dial(ds_id, better)});
  session.client = std::make_shared<rpc::SessionClient>(
      context, session.route->dial(),
      rpc::cluster_session_options(owner_, boot_, "weft-mds", keys_));
  *told = {session.route, session.client};
  return session;
}

rpc::Dial ServerSessions::dial(std::uint32_t ds_id, std::function<void()> better) {
  return [this, ds_id, better = std::move(better), generation = std::uint32_t{0},
          to_those = rpc::Dial{}](auto done) mutable {
    const auto view = registry_.find(ds_id);
    if (!view) return done(fail(Errc::kUnreachable, "no data server " + std::to_string(ds_id)));
    if (to_those == nullptr || generation != view->record.address_generation) {
      generation = view->record.address_generation;
      to_those = rpc::dial_server(threads_.context(0), pool_,
                                  {.addresses = view->record.addresses,
                                   .rdma = view->record.rdma,
                                   .within = kConnectDeadline,
                                   .dial_rdma = dialer_ ? dialer_->by(pool_) : rpc::DialRdma{},
                                   .on_connected = {},
                                   .on_better = better});
    }
    to_those(std::move(done));
  };
}

void ServerSessions::look(const Session& session) {
  if (!session.route->wants_look()) return;
  boost::asio::post(threads_.context(0), [route = session.route, client = session.client] {
    route->look([weak = std::weak_ptr(client)] {
      if (const auto still = weak.lock()) still->renew_connections();
    });
  });
}

ServerSessions::Route ServerSessions::route(std::uint32_t ds_id) const {
  const MutexLock lock(mutex_);
  const auto found = sessions_.find(ds_id);
  if (found == sessions_.end() || found->second.client == nullptr) return {};
  const Session& session = found->second;
  Route route;
  if (session.client->state() == rpc::SessionClient::State::kReady) {
    route.transport = session.route->transport();
  }
  const rpc::BulkCounts& counts = session.route->counts();
  route.shared_bytes = counts.to_server.load() + counts.to_client.load();
  return route;
}

Result<std::shared_ptr<rpc::SessionClient>> ServerSessions::session(std::uint32_t ds_id) {
  const auto view = registry_.find(ds_id);
  if (!view) return fail(Errc::kUnreachable, "no data server " + std::to_string(ds_id));
  const MutexLock lock(mutex_);
  if (stopped_) return fail(Errc::kClosed, "shut down");
  Session& session = sessions_[ds_id];
  const std::uint32_t generation = view->record.address_generation;
  if (session.client == nullptr) {
    session = make_session(*view);
  } else if (std::exchange(session.address_generation, generation) != generation) {
    session.client->reconnect();
  } else {
    look(session);
  }
  return session.client;
}

bool ServerSessions::unsettled(std::uint32_t ds_id, const layout::ObjectId& object) const {
  return given_up_->has({ds_id, object});
}

// What was sent before may come after it: by us, or by an earlier run.
bool ServerSessions::not_now(std::uint32_t ds_id, const layout::ObjectId& object) const {
  return unsettled(ds_id, object) || !registry_.runs_fenced(ds_id);
}

void ServerSessions::call(std::uint32_t ds_id, MakeOps make, std::chrono::milliseconds timeout,
                          Done done, std::optional<layout::ObjectId> changes) {
  auto attempt = std::make_shared<Attempt>(ds_id, std::move(make), clock_.now() + timeout,
                                           std::move(done), threads_.context(0).get_executor());
  attempt->changes = changes;
  bool refused = false;
  bool watch_it = false;
  {
    const MutexLock lock(mutex_);
    refused = stopped_;
    if (!refused) under_way_.insert(attempt);
    watch_it = !refused && is_gone_ && !std::exchange(watching_, true);
  }
  if (refused) return complete(*attempt, fail(Errc::kClosed, "shut down"));
  if (watch_it) boost::asio::post(threads_.context(0), [this] { watch(); });
  run(attempt);
}

void ServerSessions::watch() {
  watch_timer_.expires_after(kLook);
  watch_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) end_hopeless();
  });
}

void ServerSessions::end_hopeless() {
  std::set<std::uint32_t> asked;
  {
    const MutexLock lock(mutex_);
    for (const auto& attempt : under_way_) asked.insert(attempt->ds_id);
    watching_ = !asked.empty();
  }
  if (asked.empty()) return;
  std::erase_if(asked, [&](std::uint32_t ds_id) { return !is_gone_(ds_id); });
  std::vector<std::shared_ptr<Attempt>> hopeless;
  if (!asked.empty()) {
    const MutexLock lock(mutex_);
    std::ranges::copy_if(under_way_, std::back_inserter(hopeless),
                         [&](const auto& attempt) { return asked.contains(attempt->ds_id); });
  }
  for (const auto& attempt : hopeless) {
    finish(attempt, fail(Errc::kUnreachable, "the data server is gone"));
  }
  watch();
}

void ServerSessions::run(const std::shared_ptr<Attempt>& attempt) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(attempt->deadline - clock_.now());
  if (left.count() <= 0) {
    if (attempt->delayed) return finish(attempt, fail(Errc::kBusy, "the data server says wait"));
    return finish(attempt, fail(Errc::kTimedOut, "no answer from the data server"));
  }
  if (is_gone(attempt->ds_id)) {
    return finish(attempt, fail(Errc::kUnreachable, "the data server is gone"));
  }
  // Before what is unsettled is looked at: a data server that has moved is told of there only by
  // its new addresses.
  const auto client = session(attempt->ds_id);
  if (!client) return finish(attempt, std::unexpected(client.error()));
  if (attempt->changes && not_now(attempt->ds_id, *attempt->changes)) return again(attempt);
  auto ops = attempt->make();
  if (!ops) return finish(attempt, pass(ops));
  std::shared_ptr<GivenUp::Change> change;
  if (attempt->changes) {
    change = std::make_shared<GivenUp::Change>(given_up_,
                                               GivenUp::Where{attempt->ds_id, *attempt->changes});
    const MutexLock lock(mutex_);
    attempt->change = change;
  }
  (*client)->call(
      std::move(*ops),
      {.deadline = left,
       .idempotent = true,
       .give_up = attempt->stop.get_token(),
       .unsettled = std::move(change)},
      [this, attempt](Result<CompoundResult> result) { answered(attempt, std::move(result)); });
}

void ServerSessions::answered(const std::shared_ptr<Attempt>& attempt,
                              Result<CompoundResult> result) {
  if (!result) return finish(attempt, std::move(result));
  if (result->status == Status::NFS4ERR_DELAY || result->status == Status::NFS4ERR_GRACE) {
    attempt->delayed = true;
    return again(attempt);
  }
  if (auto outcome = rpc::outcome_of(*result); !outcome) return finish(attempt, pass(outcome));
  finish(attempt, std::move(result));
}

void ServerSessions::again(const std::shared_ptr<Attempt>& attempt) {
  attempt->timer.expires_after(kRest);
  attempt->timer.async_wait([this, attempt](const boost::system::error_code& error) {
    if (!error) run(attempt);
  });
}

}  // namespace weft::mds
