#include "rpc/session/server_connection.h"

#include <spdlog/spdlog.h>

#include "rpc/session/compound_run.h"

namespace weft::rpc {
namespace {

constexpr std::uint32_t kNullProcedure = 0;
constexpr std::uint32_t kCompoundProcedure = 1;
constexpr Program kNfs4{.number = nfs4::kProgram,
                        .lowest_version = nfs4::kVersion,
                        .highest_version = nfs4::kVersion,
                        .last_procedure = kCompoundProcedure};

std::string host_of(const std::string& peer) { return peer.substr(0, peer.rfind(':')); }

}  // namespace

ServerConnection::ServerConnection(std::shared_ptr<ServerCore> core,
                                   std::shared_ptr<Channel> channel, Via via)
    : core_(std::move(core)),
      channel_(std::move(channel)),
      host_(host_of(channel_->peer())),
      via_(via) {
  traffic().connections.fetch_add(1, std::memory_order_relaxed);
}

void ServerConnection::on_record(ReceivedRecord record) {
  if (draining_ || channel_ == nullptr) return;
  traffic().calls.fetch_add(1, std::memory_order_relaxed);
  traffic().bytes_in.fetch_add(record.bytes.size() + record.apart.size(),
                               std::memory_order_relaxed);
  xdr::Decoder in(record.bytes.span());
  auto header = read_call(in, kNfs4);
  if (!header) {
    core_->rejected.fetch_add(1, std::memory_order_relaxed);
    channel_->close(std::move(header.error()));
    return;
  }
  if (const auto* refusal = std::get_if<Refusal>(&*header)) return refuse(*refusal);
  const auto& call = std::get<CallHeader>(*header);
  if (call.procedure == kNullProcedure) {
    Message answer;
    encode_accepted(answer.bytes(), call.xid);
    return reply(std::move(answer));
  }
  nfs4::CompoundHeader compound;
  decode(in, compound);
  if (!in.ok()) return refuse({.xid = call.xid, .accept = AcceptStat::GARBAGE_ARGS});
  const std::size_t at = in.position();
  CompoundRun::start(shared_from_this(), call, std::move(compound), std::move(record), at);
}

void ServerConnection::on_closed(const Error& why) {
  if (channel_ == nullptr) return;  // abandoned
  if (why.code == Errc::kClosed) {
    spdlog::debug("event=connection_closed peer={} running={}", channel_->peer(), running_);
  } else {
    core_->lost_log.info("event=connection_lost peer={} running={} why=\"{}\"", channel_->peer(),
                         running_, why.describe());
  }
  {
    const MutexLock lock(core_->mutex);
    core_->connections.erase(shared_from_this());
  }
  traffic().connections.fetch_sub(1, std::memory_order_relaxed);
  channel_.reset();
  sessions_.clear();
  core_->check_drained();
}

void ServerConnection::begin_drain() {
  // The caller holds the core's mutex and found this in its set: on_closed() takes it out, under
  // on_closed() takes this out of the core's set, under its mutex, before it lets go of channel_.
  // that mutex, before it lets go of channel_.
  channel_->post([self = shared_from_this()] {
    if (self->channel_ == nullptr) return;
    self->draining_ = true;
    self->channel_->pause();
    self->close_if_drained();
  });
}

void ServerConnection::abandon() {
  channel_.reset();
  sessions_.clear();
}

void ServerConnection::reply(Message message) {
  if (channel_ == nullptr) return;
  traffic().bytes_out.fetch_add(message.size(), std::memory_order_relaxed);
  channel_->send(std::move(message));
}

const std::shared_ptr<ServerSession>& ServerConnection::session(const nfs4::SessionId& id) {
  static const std::shared_ptr<ServerSession> kNoSession;
  std::erase_if(sessions_, [](const auto& cached) { return cached->dead(); });
  for (const auto& cached : sessions_) {
    if (cached->id() == id) return join(*cached) ? cached : kNoSession;
  }
  auto found = core_->table.find(id);
  if (found == nullptr || !join(*found)) return kNoSession;
  if (sessions_.size() < kCachedSessions) return sessions_.emplace_back(std::move(found));
  auto& place = sessions_[replace_next_++ % kCachedSessions];
  place = std::move(found);
  return place;
}

bool ServerConnection::join(const ServerSession& session) {
  if (channel_ == nullptr) return false;
  const ServerClient& client = session.client();
  const bool has_right = client.has_right.load(std::memory_order_relaxed);
  const Standing shown = client.info.server ? Standing::kServer
                         : has_right        ? Standing::kClient
                                            : Standing::kGuest;
  if (channel_->promote(shown)) return true;
  channel_->close({Errc::kBusy, "too many connections"});
  return false;
}

void ServerConnection::run_started() {
  core_->running.fetch_add(1, std::memory_order_relaxed);
  core_->compounds.fetch_add(1, std::memory_order_relaxed);
  if (++running_ >= core_->options.max_running_per_connection && channel_ != nullptr) {
    paused_ = true;
    channel_->pause();
  }
}

void ServerConnection::run_ended() {
  core_->running.fetch_sub(1);
  --running_;
  if (paused_ && !draining_ && running_ < core_->options.max_running_per_connection &&
      channel_ != nullptr) {
    paused_ = false;
    channel_->resume();
  }
  close_if_drained();
  core_->check_drained();
}

void ServerConnection::refuse(const Refusal& refusal) {
  core_->rejected.fetch_add(1, std::memory_order_relaxed);
  Message answer;
  encode_refusal(answer.bytes(), refusal);
  reply(std::move(answer));
}

void ServerConnection::close_if_drained() {
  if (!draining_ || running_ != 0 || channel_ == nullptr) return;
  channel_->close(Error{Errc::kClosed, "the server is going down"}, /*drain=*/true);
}

}  // namespace weft::rpc
