#include "rpc/session/client_core.h"

#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>

#include "rpc/base/assert.h"
#include "rpc/onc/rpc_header.h"

namespace weft::rpc {
namespace {

using nfs4::Status;

constexpr std::chrono::milliseconds kDelay{100};      // after NFS4ERR_DELAY
constexpr std::chrono::milliseconds kCatchUp{1'000};  // after the thread did not run

}  // namespace

ClientCore::ClientCore(boost::asio::io_context& context, Dial dial, SessionClientOptions options)
    : context_(context),
      dial_(std::move(dial)),
      options_(std::move(options)),
      timer_(context),
      connections_(std::max(options_.connections, 1U)),
      next_xid_(static_cast<std::uint32_t>(system_random().u64())) {}

void ClientCore::post(std::move_only_function<void(ClientCore&)> work) {
  boost::asio::post(context_,
                    [self = shared_from_this(), work = std::move(work)]() mutable { work(*self); });
}

nfs4::ExchangeIdOk ClientCore::server() const {
  const MutexLock lock(mutex_);
  return server_;
}

void ClientCore::start() { dial_missing(clock_.now()); }

void ClientCore::submit(ClientRequest request) {
  if (phase_ == Phase::kClosing || phase_ == Phase::kClosed) {
    return request.complete(fail(Errc::kClosed, "session client closed"));
  }
  if (waiting_.size() >= options_.max_waiting) {
    return request.complete(fail(Errc::kBusy, "too many calls wait for a slot"));
  }
  request.expires = clock_.at(request.expires);
  wake_by(request.expires);
  waiting_.push_back(std::move(request));
  pump();
}

void ClientCore::when_ready(std::chrono::milliseconds deadline,
                            std::move_only_function<void(Result<>)> done) {
  if (phase_ == Phase::kReady) return done({});
  if (phase_ == Phase::kClosing || phase_ == Phase::kClosed) {
    return done(fail(Errc::kClosed, "session client closed"));
  }
  const Time expires = clock_.now() + deadline;
  ready_waiters_.push_back({expires, std::move(done)});
  wake_by(expires);
}

// Gives slots to waiting requests, after sending again what lost its connection.
void ClientCore::pump() {
  if (phase_ == Phase::kLosing) return end_losing();
  const bool reclaiming = phase_ == Phase::kReclaim;
  if (phase_ != Phase::kReady && !reclaiming) return;
  // They let go of what they were to send, too, which would be kept for as long as the server is
  // away.
  for (auto& [slot, request] : in_flight_) {
    if (request.connection != SIZE_MAX || request.closing || !request.given_up()) continue;
    close_slot(request);
  }
  if (delayed_until_ != Time{} && clock_.now() < delayed_until_) return;
  delayed_until_ = {};
  for (auto& [slot, request] : in_flight_) {
    if (request.connection == SIZE_MAX && !send(request)) return;
  }
  if (renew_by_ != Time{} && renewing()) return;
  while (!waiting_.empty() && (!reclaiming || waiting_.front().internal)) {
    if (waiting_.front().given_up()) {
      ClientRequest unsent = std::move(waiting_.front());
      waiting_.pop_front();
      unsent.complete(fail(Errc::kCancelled, "given up"));
      continue;
    }
    if (pick_connection() == SIZE_MAX) return;
    const auto slot = slots_.acquire();
    if (!slot) return;
    ClientRequest request = std::move(waiting_.front());
    waiting_.pop_front();
    request.slot = *slot;
    request.xid = next_xid_++;
    request.sends = 0;
    address(request);
    slot_of_xid_[request.xid] = *slot;
    const auto [at, added] = in_flight_.emplace(*slot, std::move(request));
    WEFT_ASSERT(added);
    static_cast<void>(send(at->second));
  }
}

void ClientCore::address(ClientRequest& request) {
  address_request(request, {.session = session_,
                            .sequence = slots_.sequence(request.slot),
                            .slot = request.slot,
                            .highest_slot = slots_.highest_used(),
                            .cache_this = request.options.cache_this && !request.closing});
}

// Whether the server has carried the operations out, carries them out now, or never saw them: by
// its answer it has done with them. The first two it answers when they are done.
void ClientCore::close_slot(ClientRequest& request) {
  make_closing(request, options_);
  address(request);
  request.expires = clock_.now() + options_.connect_deadline;
  wake_by(request.expires);
}

bool ClientCore::send(ClientRequest& request) {
  const std::size_t connection = pick_connection();
  if (connection == SIZE_MAX) return false;
  request.connection = connection;
  ++request.sends;
  request.sent_at = last_sent_ = clock_.now();
  ++connections_[connection].in_flight;
  connections_[connection].channel->send(request.message.share());
  return true;
}

void ClientCore::on_record(std::size_t connection, const Channel* channel, ReceivedRecord record) {
  if (connections_[connection].channel.get() != channel) return;  // one given up already
  connections_[connection].last_received = clock_.now();
  xdr::Decoder in(record.bytes.span());
  const auto xid = read_reply_xid(in);
  if (!xid) return drop_connection(connection, xid.error());
  if (control_ && control_->xid == *xid) return on_control_answer(std::move(record.bytes));
  const auto known = slot_of_xid_.find(*xid);
  if (known == slot_of_xid_.end()) return;  // the answer to an earlier transmission
  auto node = in_flight_.extract(known->second);
  WEFT_ASSERT(!node.empty());
  slot_of_xid_.erase(known);
  ClientRequest request = std::move(node.mapped());
  if (request.connection != SIZE_MAX) --connections_[request.connection].in_flight;

  auto status = read_reply_status(in);
  if (!status) {
    // Refused before the session looked at it: the sequence number is not used up.
    slots_.release(request.slot, false);
    request.complete(pass(status));
    return pump();
  }
  auto result = nfs4::decode_compound_result(in, record.bytes, std::move(record.apart.lent));
  if (!result || result->results.empty() || result->results[0].op != nfs4::Op::OP_SEQUENCE) {
    if (result && result->results.empty() && result->status != Status::NFS4_OK) {
      slots_.release(request.slot, false);  // refused as a whole: the minor version
      request.complete(std::move(*result));
      return pump();
    }
    // What the server did is anyone's guess; so is the slot. A new session tells.
    request.complete(fail(Errc::kProtocol, "malformed COMPOUND reply"));
    slots_.release(request.slot, true);
    return drop_connection(connection, {Errc::kProtocol, "malformed COMPOUND reply"});
  }
  on_answer(std::move(request), std::move(*result));
  pump();
}

void ClientCore::on_answer(ClientRequest request, nfs4::CompoundResult result) {
  const Status sequence_status = result.results[0].status;
  if (sequence_status != Status::NFS4_OK) {
    return on_sequence_failure(std::move(request), sequence_status);
  }
  const auto* ok = result.get<nfs4::SequenceOk>(0);
  WEFT_ASSERT(ok != nullptr);
  slots_.release(request.slot, true);
  slots_.set_target(ok->target_highest_slot);
  if (request.closing) return request.complete(fail(Errc::kCancelled, "given up"));
  if (result.results.size() == 2 &&
      result.results[1].status == Status::NFS4ERR_RETRY_UNCACHED_REP) {
    return retry_or_fail(std::move(request), "executed, but the answer was lost");
  }
  result.results.erase(result.results.begin());
  request.complete(std::move(result));
}

void ClientCore::on_sequence_failure(ClientRequest request, Status status) {
  switch (status) {
    case Status::NFS4ERR_SEQ_FALSE_RETRY:
      if (!request.closing) break;
      slots_.release(request.slot, true);  // by the operations
      return request.complete(fail(Errc::kCancelled, "given up"));
    case Status::NFS4ERR_DELAY:
      slots_.release(request.slot, false);
      delayed_until_ = clock_.now() + kDelay;
      wake_by(delayed_until_);
      return requeue(std::move(request));
    case Status::NFS4ERR_TOO_MANY_OPS:
    case Status::NFS4ERR_REQ_TOO_BIG:
    case Status::NFS4ERR_REP_TOO_BIG:
    case Status::NFS4ERR_REP_TOO_BIG_TO_CACHE:
    case Status::NFS4ERR_BADXDR: {
      slots_.release(request.slot, false);
      nfs4::CompoundResult refused;
      refused.status = status;
      return request.complete(std::move(refused));
    }
    default: break;
  }
  // BADSESSION, DEADSESSION, and numbers out of step: only a new session mends any of these.
  spdlog::info("event=session_lost status={} slot={}", nfs4::to_string(status), request.slot);
  slots_.release(request.slot, false);
  // A request sent once and refused was not executed; one sent twice may have been.
  if (request.sends == 1) {
    requeue(std::move(request));
  } else {
    retry_or_fail(std::move(request), "session lost, it may have been executed");
  }
  lose_session();
}

void ClientCore::retry_or_fail(ClientRequest request, const char* why) {
  if (request.options.idempotent) return requeue(std::move(request));
  request.complete(fail(Errc::kClosed, why));
}

void ClientCore::requeue(ClientRequest request) {
  request.connection = SIZE_MAX;
  if (request.given_up()) return request.complete(fail(Errc::kCancelled, "given up"));
  waiting_.push_front(std::move(request));
}

void ClientCore::wake_by(Time due) {
  if (due >= due_ || phase_ == Phase::kClosed) return;
  due_ = due;
  timer_.expires_after(due - clock_.now());
  timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (self == nullptr || error || self->phase_ == Phase::kClosed) return;
    // What has come meanwhile is read before anything is due.
    const bool late = self->clock_.woken(std::exchange(self->due_, Time::max()));
    const Time now = self->clock_.now();
    if (late && !std::exchange(self->late_, true)) return self->wake_by(now + kCatchUp);
    self->late_ = false;
    self->tick(now);
    self->wake_by(self->next_due(now));
  });
}

// What is past and was not done in tick() waits for something else, which looks at it again: for a
// connection, an answer, or the session.
ClientCore::Time ClientCore::next_due(Time now) const {
  Time due = Time::max();
  const auto at = [&due, now](Time time) {
    if (time > now) due = std::min(due, time);
  };
  if (control_) at(control_->expires);
  for (const ClientRequest& request : waiting_) at(request.expires);
  for (const auto& [slot, request] : in_flight_) {
    if (request.done || request.closing) at(request.expires);
  }
  for (const Waiter& waiter : ready_waiters_) at(waiter.expires);
  for (const Connection& connection : connections_) {
    if (connection.channel == nullptr && !connection.dialing) at(connection.dial_at);
  }
  at(retry_at_);
  at(delayed_until_);
  at(renew_by_);
  at(losing_until_);
  at(closing_until_);
  if (phase_ == Phase::kReady) {
    const Time idle = last_sent_ + options_.keep_alive;
    // Past: a request is under way. When that is answered the session may be idle at once.
    at(idle > now ? idle : now + options_.keep_alive / 8);
  }
  return due;
}

void ClientCore::tick(Time now) {
  if (control_ && now >= control_->expires) {
    const std::size_t connection = control_->connection;
    auto done = std::move(control_->done);
    control_.reset();
    drop_connection(connection, {Errc::kTimedOut, "no answer from the server"});
    done(fail(Errc::kTimedOut, "no answer from the server"));
  }
  expire_requests(now);
  if (phase_ == Phase::kClosing && now >= closing_until_) return finish_close();
  if (phase_ == Phase::kClosing || phase_ == Phase::kClosed) return;
  dial_missing(now);
  if (!control_ && phase_ != Phase::kReady && now >= retry_at_) advance();
  keep_alive(now);
  pump();
}

void ClientCore::expire_requests(Time now) {
  std::vector<SessionClient::Done> late;
  std::vector<std::size_t> hung;
  std::erase_if(waiting_, [&](ClientRequest& request) {
    if (now < request.expires) return false;
    if (request.done) late.push_back(std::move(request.done));
    return true;
  });
  for (auto& [slot, request] : in_flight_) {
    if (now < request.expires || (!request.done && !request.closing)) continue;
    if (request.done) late.push_back(std::exchange(request.done, nullptr));
    if (request.closing) request.expires = now + options_.connect_deadline;
    // Silence since it was sent: the server hangs behind a live connection. A new one may help,
    // and brings the slot back.
    if (request.connection != SIZE_MAX &&
        connections_[request.connection].last_received < request.sent_at) {
      hung.push_back(request.connection);
    }
  }
  for (const std::size_t connection : hung) {
    drop_connection(connection, {Errc::kTimedOut, "no answer from the server"});
  }
  std::vector<std::move_only_function<void(Result<>)>> unready;
  std::erase_if(ready_waiters_, [&](Waiter& waiter) {
    if (now < waiter.expires) return false;
    unready.push_back(std::move(waiter.done));
    return true;
  });
  const Error why = ever_ready_ ? Error{Errc::kTimedOut, "deadline passed"} : last_error_;
  for (auto& done : late) done(std::unexpected(why));
  for (auto& done : unready) done(std::unexpected(why));
}

void ClientCore::keep_alive(Time now) {
  if (phase_ != Phase::kReady || now - last_sent_ < options_.keep_alive || slots_.in_use() > 0) {
    return;
  }
  last_sent_ = now;
  auto request = make_request(options_, {}, {.deadline = options_.connect_deadline}, {});
  request.internal = true;
  request.expires = now + options_.connect_deadline;
  // A lost answer must be noticed: the completion does nothing, but being there it can be late.
  request.done = [](Result<nfs4::CompoundResult>) {};
  wake_by(request.expires);
  waiting_.push_front(std::move(request));
}

void ClientCore::fail_all(const Error& why) {
  auto waiting = std::exchange(waiting_, {});
  auto in_flight = std::exchange(in_flight_, {});
  auto waiters = std::exchange(ready_waiters_, {});
  slot_of_xid_.clear();
  for (ClientRequest& request : waiting) request.complete(std::unexpected(why));
  for (auto& [slot, request] : in_flight) request.complete(std::unexpected(why));
  for (Waiter& waiter : waiters) waiter.done(std::unexpected(why));
}

}  // namespace weft::rpc
