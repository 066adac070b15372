// ClientCore's way to a session: EXCHANGE_ID, CREATE_SESSION, RECLAIM_COMPLETE, and back again when
// the server has forgotten one of them.
#include <spdlog/spdlog.h>

#include "rpc/onc/rpc_header.h"
#include "rpc/session/client_core.h"

namespace weft::rpc {
namespace {

using nfs4::Op;
using nfs4::Status;

constexpr std::chrono::milliseconds kFarewell{2000};

Error error_of(Status status, const char* what) {
  return {nfs4::errc_from(status), std::string(what) + ": " + std::string(to_string(status))};
}

}  // namespace

// Takes the step that the phase calls for, if there is a connection for it.
void ClientCore::advance() {
  if (control_ || pick_connection() == SIZE_MAX) return;
  switch (phase_) {
    case Phase::kConnecting:
    case Phase::kExchange: return exchange_id();
    case Phase::kCreate: return create_session();
    case Phase::kReclaim:
    case Phase::kReady:
    case Phase::kLosing:
    case Phase::kClosing:
    case Phase::kClosed: return;
  }
}

void ClientCore::control(nfs4::OpArgs op,
                         std::move_only_function<void(Result<nfs4::OpResult>)> done) {
  const std::size_t connection = pick_connection();
  if (connection == SIZE_MAX) return done(fail(Errc::kUnreachable, "no connection"));
  Message call;
  const std::uint32_t xid = next_xid_++;
  encode_call(call.bytes(), xid, nfs4::kProgram, nfs4::kVersion, 1, &options_.credential);
  std::vector<nfs4::OpArgs> ops;
  ops.push_back(std::move(op));
  nfs4::encode_compound(call, options_.minor_version, std::move(ops));
  const auto now = clock_.now();
  const auto deadline = phase_ == Phase::kClosing ? kFarewell : options_.connect_deadline;
  control_ = Control{xid, connection, now + deadline, std::move(done)};
  wake_by(now + deadline);
  last_sent_ = now;
  connections_[connection].channel->send(std::move(call));
}

void ClientCore::on_control_answer(Buffer record) {
  auto done = std::move(control_->done);
  control_.reset();
  xdr::Decoder in(record.span());
  static_cast<void>(read_reply_xid(in));
  if (auto status = read_reply_status(in); !status) return done(pass(status));
  auto result = nfs4::decode_compound_result(in, record);
  if (!result) return done(pass(result));
  if (result->results.empty()) {
    return done(std::unexpected(error_of(result->status, "session operation")));
  }
  done(std::move(result->results[0]));
}

void ClientCore::exchange_id() {
  phase_ = Phase::kExchange;
  nfs4::ExchangeIdArgs args;
  args.verifier = options_.verifier;
  const auto owner = std::as_bytes(std::span(options_.owner));
  args.owner.assign(owner.begin(), owner.end());
  args.flags = options_.flags;
  args.impl = nfs4::ImplId{.domain = options_.domain(), .name = "weft", .date = {}};
  control({Op::OP_EXCHANGE_ID, std::move(args)},
          [this](Result<nfs4::OpResult> result) { on_exchange_id(std::move(result)); });
}

void ClientCore::on_exchange_id(Result<nfs4::OpResult> result) {
  if (!result) return retry_later(std::move(result.error()));
  auto* ok = std::get_if<nfs4::ExchangeIdOk>(&result->ok);
  if (result->status != Status::NFS4_OK || ok == nullptr) {
    return retry_later(error_of(result->status, "EXCHANGE_ID"));
  }
  create_sequence_ = ok->sequence;
  must_reclaim_ = (ok->flags & nfs4::EXCHGID4_FLAG_CONFIRMED_R) == 0;
  {
    const MutexLock lock(mutex_);
    server_ = std::move(*ok);
  }
  phase_ = Phase::kCreate;
  advance();
}

void ClientCore::create_session() {
  nfs4::CreateSessionArgs args;
  {
    const MutexLock lock(mutex_);
    args.client_id = server_.client_id;
  }
  args.sequence = create_sequence_;
  args.fore = {.header_pad = 0,
               .max_request = options_.max_request_bytes,
               .max_response = options_.max_response_bytes,
               .max_response_cached = 4096,
               .max_operations = 16,
               .max_requests = options_.slots,
               .rdma_ird = std::nullopt};
  args.back = {.header_pad = 0,
               .max_request = 4096,
               .max_response = 4096,
               .max_response_cached = 0,
               .max_operations = 2,
               .max_requests = 1,
               .rdma_ird = std::nullopt};
  control({Op::OP_CREATE_SESSION, args},
          [this](Result<nfs4::OpResult> result) { on_create_session(std::move(result)); });
}

void ClientCore::on_create_session(Result<nfs4::OpResult> result) {
  // Unanswered, the same sequence number goes out again: the server then answers from its cache.
  if (!result) return retry_later(std::move(result.error()));
  const auto* ok = std::get_if<nfs4::CreateSessionOk>(&result->ok);
  if (result->status == Status::NFS4ERR_STALE_CLIENTID ||
      result->status == Status::NFS4ERR_SEQ_MISORDERED) {
    phase_ = Phase::kExchange;
    return advance();
  }
  if (result->status == Status::NFS4_OK && ok != nullptr && ok->fore.max_requests > 0 &&
      ok->fore.max_requests <= options_.slots) {
    ++create_sequence_;
    session_ = ok->session;
    slots_.reset(ok->fore.max_requests);
    if (must_reclaim_) return reclaim_complete();
    return become_ready();
  }
  if (result->status != Status::NFS4ERR_DELAY) ++create_sequence_;
  retry_later(error_of(result->status, "CREATE_SESSION"));
}

void ClientCore::reclaim_complete() {
  phase_ = Phase::kReclaim;
  std::vector<nfs4::OpArgs> ops;
  ops.push_back({Op::OP_RECLAIM_COMPLETE, nfs4::ReclaimCompleteArgs{}});
  auto request = make_request(
      options_, std::move(ops), {.deadline = options_.connect_deadline},
      [this](Result<nfs4::CompoundResult> result) {
        if (phase_ != Phase::kReclaim) return;
        if (result && (result->status == Status::NFS4_OK ||
                       result->status == Status::NFS4ERR_COMPLETE_ALREADY)) {
          must_reclaim_ = false;
          return become_ready();
        }
        if (!result && result.error() == Errc::kCancelled) return;
        phase_ = Phase::kCreate;
        // If it has no answer it still has its slot, which the next session's first request takes.
        static_cast<void>(take_in_flight());
        retry_later(result ? error_of(result->status, "RECLAIM_COMPLETE") : result.error());
      });
  request.internal = true;
  request.expires = clock_.now() + options_.connect_deadline;
  wake_by(request.expires);
  waiting_.push_front(std::move(request));
  pump();
}

void ClientCore::become_ready() {
  const Time now = clock_.now();
  phase_ = Phase::kReady;
  wake_by(now + options_.keep_alive);
  dial_missing(now);
  ever_ready_ = true;
  state_ = SessionClient::State::kReady;
  auto waiters = std::exchange(ready_waiters_, {});
  for (Waiter& waiter : waiters) waiter.done({});
  pump();
}

std::unordered_map<std::uint32_t, ClientRequest> ClientCore::take_in_flight() {
  slot_of_xid_.clear();
  for (Connection& connection : connections_) connection.in_flight = 0;
  return std::exchange(in_flight_, {});
}

// The server does not know the session any more, or ends it. What was in flight under it may have
// been executed or not.
void ClientCore::lose_session() {
  if (phase_ != Phase::kReady && phase_ != Phase::kReclaim) return;
  phase_ = Phase::kLosing;
  state_ = SessionClient::State::kConnecting;
  retry_at_ = {};
  losing_until_ = clock_.now() + options_.connect_deadline;
  wake_by(losing_until_);
  // RECLAIM_COMPLETE is made anew with the next session.
  std::erase_if(waiting_, [](const ClientRequest& request) { return request.internal; });
  end_losing();
}

// What was sent once, by a connection that lives, is answered yet: it was executed, or it was
// refused and will not be executed.
void ClientCore::end_losing() {
  const bool over = clock_.now() >= losing_until_;
  std::vector<ClientRequest> lost;
  for (auto at = in_flight_.begin(); at != in_flight_.end();) {
    ClientRequest& request = at->second;
    const bool connected = request.connection != SIZE_MAX;
    if (!over && connected && request.sends == 1 && !request.internal) {
      ++at;
      continue;
    }
    if (connected) --connections_[request.connection].in_flight;
    slot_of_xid_.erase(request.xid);
    lost.push_back(std::move(request));
    at = in_flight_.erase(at);
  }
  for (ClientRequest& request : lost) {
    if (request.internal) continue;
    retry_or_fail(std::move(request), "session lost, it may have been executed");
  }
  if (!in_flight_.empty()) return;
  losing_until_ = {};
  phase_ = Phase::kCreate;
  advance();
}

void ClientCore::retry_later(Error why) {
  if (phase_ == Phase::kClosing || phase_ == Phase::kClosed) return;
  spdlog::debug("event=session_retry why=\"{}\"", why.describe());
  last_error_ = std::move(why);
  retry_at_ = clock_.now() + options_.reconnect_least;
  wake_by(retry_at_);
}

void ClientCore::close(std::move_only_function<void()> done) {
  if (phase_ == Phase::kClosing || phase_ == Phase::kClosed) return done();
  const bool had_session = phase_ == Phase::kReady;
  phase_ = Phase::kClosing;
  state_ = SessionClient::State::kClosed;
  closed_ = std::move(done);
  closing_until_ = clock_.now() + kFarewell;
  wake_by(closing_until_);
  control_.reset();
  fail_all({Errc::kCancelled, "session client closed"});
  if (!had_session || pick_connection() == SIZE_MAX) return finish_close();
  destroy_session();
}

void ClientCore::destroy_session() {
  control({Op::OP_DESTROY_SESSION, nfs4::DestroySessionArgs{session_}},
          [this](Result<nfs4::OpResult> result) {
            if (!result) return finish_close();
            destroy_client();
          });
}

void ClientCore::destroy_client() {
  const nfs4::ClientId id = server().client_id;
  control({Op::OP_DESTROY_CLIENTID, nfs4::DestroyClientIdArgs{id}},
          [this](Result<nfs4::OpResult>) { finish_close(); });
}

}  // namespace weft::rpc
