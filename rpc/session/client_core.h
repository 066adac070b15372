// The inside of SessionClient. Internal to rpc/session.
//
// Phases: kConnecting (no connection yet, or none any more before a session stands), kExchange,
// kCreate, kReclaim (one control call is out at a time), kReady, kLosing, kClosing, kClosed. Loss
// of the session (NFS4ERR_BADSESSION) goes from kReady to kLosing, in which what was sent once and
// is in flight is answered yet, and from there to kCreate; NFS4ERR_STALE_CLIENTID from there to
// kExchange.
//
// client_core.cc has requests and their answers, client_session.cc the way to a session,
// client_connections.cc dialing and losing connections.
//
// Deadlines leave out the time in which the thread did not run (rpc/base/running_clock.h): answers
// may have come meanwhile.
//
// Threading: everything on the io_context's thread, but for what is marked atomic or guarded.
//
// Invariants:
//  1. Every request accepted is completed exactly once.
//  2. A request in flight is in slots_in_flight_ under its slot, whatever its connection's fate.
//  3. At most one control call is out, and it has a deadline.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <unordered_map>

#include "rpc/base/mutex.h"
#include "rpc/base/running_clock.h"
#include "rpc/session/client_request.h"
#include "rpc/session/client_slots.h"
#include "rpc/session/session_client.h"

namespace weft::rpc {

class ClientCore : public std::enable_shared_from_this<ClientCore> {
 public:
  ClientCore(boost::asio::io_context& context, Dial dial, SessionClientOptions options);

  // Any thread. ---------------------------------------------------------------------------------
  void post(std::move_only_function<void(ClientCore&)> work);
  [[nodiscard]] const SessionClientOptions& options() const { return options_; }
  [[nodiscard]] SessionClient::State state() const { return state_.load(); }
  [[nodiscard]] nfs4::ExchangeIdOk server() const;

  // The I/O thread. -----------------------------------------------------------------------------
  void start();
  void submit(ClientRequest request);
  void when_ready(std::chrono::milliseconds deadline, std::move_only_function<void(Result<>)> done);
  void renew_connections();
  void reconnect();
  void close(std::move_only_function<void()> done);
  // Ends at once, everything completed with kCancelled.
  void abandon();

  // For connections.
  void on_record(std::size_t connection, const Channel* channel, ReceivedRecord record);
  void on_closed(std::size_t connection, const Channel* channel, const Error& why);

 private:
  using Time = std::chrono::steady_clock::time_point;
  enum class Phase {
    kConnecting,
    kExchange,
    kCreate,
    kReclaim,
    kReady,
    kLosing,
    kClosing,
    kClosed
  };
  struct Connection {
    std::shared_ptr<Channel> channel;  // null: not connected
    bool dialing = false;
    Time dial_at{};
    std::chrono::milliseconds back_off{0};
    std::size_t in_flight = 0;
    Time last_received{};
  };
  struct Waiter {
    Time expires;
    std::move_only_function<void(Result<>)> done;
  };
  // A call outside the slots: EXCHANGE_ID and the like.
  struct Control {
    std::uint32_t xid = 0;
    std::size_t connection = SIZE_MAX;
    Time expires;
    std::move_only_function<void(Result<nfs4::OpResult>)> done;
  };

  // client_core.cc
  void pump();
  [[nodiscard]] bool send(ClientRequest& request);
  void address(ClientRequest& request);
  void close_slot(ClientRequest& request);
  void on_answer(ClientRequest request, nfs4::CompoundResult result);
  void on_sequence_failure(ClientRequest request, nfs4::Status status);
  void retry_or_fail(ClientRequest request, const char* why);
  void requeue(ClientRequest request);
  void tick(Time now);
  // The timer fires at `due_`; what is to be done then, next_due() knows. Whoever makes something
  // due earlier says so here.
  void wake_by(Time due);
  [[nodiscard]] Time next_due(Time now) const;
  void expire_requests(Time now);
  void keep_alive(Time now);
  void fail_all(const Error& why);

  // client_session.cc
  void advance();
  void control(nfs4::OpArgs op, std::move_only_function<void(Result<nfs4::OpResult>)> done);
  void on_control_answer(Buffer record);
  void exchange_id();
  void on_exchange_id(Result<nfs4::OpResult> result);
  void create_session();
  void on_create_session(Result<nfs4::OpResult> result);
  void reclaim_complete();
  void lose_session();
  // The next one, once nothing is in flight that the server may answer.
  void end_losing();
  // What was in flight, which no answer is for any more: the session goes.
  [[nodiscard]] std::unordered_map<std::uint32_t, ClientRequest> take_in_flight();
  void become_ready();
  void retry_later(Error why);
  void destroy_session();
  void destroy_client();

  // client_connections.cc
  void dial_missing(Time now);
  void on_dialed(std::size_t connection, Result<std::shared_ptr<Channel>> channel);
  // The least busy live connection; SIZE_MAX when none is.
  [[nodiscard]] std::size_t pick_connection() const;
  void drop_connection(std::size_t connection, Error why);
  // Each is dialled at once, not as one that broke.
  void drop_connections(const Error& why);
  void forget_connection(std::size_t connection, const Error& why);
  // Whether requests must wait for new connections; makes them when nothing is under way.
  [[nodiscard]] bool renewing();
  void finish_close();

  boost::asio::io_context& context_;
  const Dial dial_;
  const SessionClientOptions options_;
  boost::asio::steady_timer timer_;
  RunningClock clock_;

  Phase phase_ = Phase::kConnecting;
  std::vector<Connection> connections_;
  std::deque<ClientRequest> waiting_;
  std::unordered_map<std::uint32_t, ClientRequest> in_flight_;  // by slot
  std::unordered_map<std::uint32_t, std::uint32_t> slot_of_xid_;
  std::vector<Waiter> ready_waiters_;
  std::optional<Control> control_;
  std::move_only_function<void()> closed_;
  Time closing_until_{};
  Time retry_at_{};      // of the next step towards a session
  Time losing_until_{};  // kLosing ends then, or before
  Time last_sent_{};
  Time due_ = Time::max();  // when tick() comes next; max: it does not, by itself
  Time renew_by_{};         // or the connections stay; zero: nobody wants new ones
  Time delayed_until_{};    // the server asked for a pause (NFS4ERR_DELAY)
  Error last_error_{Errc::kUnreachable, "not connected yet"};
  bool late_ = false;  // the timer was, and what was due then has been given some time
  bool ever_ready_ = false;
  bool must_reclaim_ = true;
  bool pumping_ = false;

  std::uint32_t next_xid_;
  nfs4::SessionId session_{};
  ClientSlots slots_;
  std::uint32_t create_sequence_ = 0;

  std::atomic<SessionClient::State> state_{SessionClient::State::kConnecting};
  mutable Mutex mutex_;
  nfs4::ExchangeIdOk server_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft::rpc
