// ClientCore's connections: made, lost, made again with growing pauses.
#include <spdlog/spdlog.h>

#include "rpc/session/client_core.h"

namespace weft::rpc {
namespace {

constexpr std::chrono::milliseconds kRenewPatience{2000};

// What a channel calls back. It knows the client only as long as that lives.
class ClientLink final : public ChannelUser {
 public:
  ClientLink(std::weak_ptr<ClientCore> core, std::size_t connection, const Channel* channel)
      : core_(std::move(core)), connection_(connection), channel_(channel) {}

  void on_record(ReceivedRecord record) override {
    if (const auto core = core_.lock()) core->on_record(connection_, channel_, std::move(record));
  }
  void on_closed(const Error& why) override {
    if (const auto core = core_.lock()) core->on_closed(connection_, channel_, why);
  }

 private:
  const std::weak_ptr<ClientCore> core_;
  const std::size_t connection_;
  const Channel* const channel_;  // told apart from its successors, never used
};

}  // namespace

void ClientCore::dial_missing(Time now) {
  if (phase_ == Phase::kClosing || phase_ == Phase::kClosed) return;
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    Connection& connection = connections_[i];
    if (connection.channel != nullptr || connection.dialing || now < connection.dial_at) continue;
    // The first one makes the session, the others join it.
    if (i > 0 && phase_ != Phase::kReady) break;
    connection.dialing = true;
    dial_([weak = weak_from_this(), i](Result<std::shared_ptr<Channel>> channel) {
      if (const auto self = weak.lock()) {
        self->on_dialed(i, std::move(channel));
      } else if (channel) {
        (*channel)->close({Errc::kCancelled, "nobody wants it any more"}, false);
      }
    });
  }
}

void ClientCore::on_dialed(std::size_t index, Result<std::shared_ptr<Channel>> channel) {
  Connection& connection = connections_[index];
  connection.dialing = false;
  if (phase_ == Phase::kClosing || phase_ == Phase::kClosed) {
    if (channel) (*channel)->close({Errc::kCancelled, "closed meanwhile"}, false);
    return;
  }
  if (!channel) {
    connection.back_off =
        std::clamp(connection.back_off * 2, options_.reconnect_least, options_.reconnect_most);
    connection.dial_at = clock_.now() + connection.back_off;
    wake_by(connection.dial_at);
    spdlog::debug("event=dial_failed why=\"{}\"", channel.error().describe());
    last_error_ = std::move(channel.error());
    return;
  }
  connection.channel = std::move(*channel);
  connection.in_flight = 0;
  connection.last_received = clock_.now();
  connection.channel->start(
      std::make_shared<ClientLink>(weak_from_this(), index, connection.channel.get()));
  advance();
  pump();
}

std::size_t ClientCore::pick_connection() const {
  std::size_t best = SIZE_MAX;
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    if (connections_[i].channel == nullptr) continue;
    if (best == SIZE_MAX || connections_[i].in_flight < connections_[best].in_flight) best = i;
  }
  return best;
}

void ClientCore::on_closed(std::size_t index, const Channel* channel, const Error& why) {
  if (connections_[index].channel.get() == channel) forget_connection(index, why);
}

void ClientCore::drop_connection(std::size_t index, Error why) {
  if (index >= connections_.size() || connections_[index].channel == nullptr) return;
  connections_[index].channel->close(why, false);
  forget_connection(index, why);
}

// The requests that went over it keep their slots and go over another one.
void ClientCore::forget_connection(std::size_t index, const Error& why) {
  Connection& connection = connections_[index];
  connection.channel.reset();
  connection.in_flight = 0;
  // An established one that breaks is dialed again at once, one that breaks again after a pause.
  const Time now = clock_.now();
  const bool was_of_use = now - connection.dial_at > options_.reconnect_most;
  connection.back_off = was_of_use ? std::chrono::milliseconds{0}
                                   : std::clamp(connection.back_off * 2, options_.reconnect_least,
                                                options_.reconnect_most);
  connection.dial_at = now + connection.back_off;
  wake_by(connection.dial_at);
  last_error_ = why;
  for (auto& [slot, request] : in_flight_) {
    if (request.connection == index) request.connection = SIZE_MAX;
  }
  if (control_ && control_->connection == index) {
    auto done = std::move(control_->done);
    control_.reset();
    done(std::unexpected(why));
  }
  if (phase_ == Phase::kClosing || phase_ == Phase::kClosed) return;
  dial_missing(now);
  pump();
}

void ClientCore::renew_connections() {
  if (phase_ != Phase::kReady) return;
  renew_by_ = clock_.now() + kRenewPatience;
  wake_by(renew_by_);
  pump();
}

bool ClientCore::renewing() {
  if (phase_ != Phase::kReady || clock_.now() >= renew_by_) {
    renew_by_ = {};
    return false;
  }
  if (!in_flight_.empty()) return true;
  renew_by_ = {};
  drop_connections({Errc::kClosed, "for a new one"});
  return pick_connection() == SIZE_MAX;
}

void ClientCore::reconnect() {
  if (phase_ == Phase::kClosing || phase_ == Phase::kClosed) return;
  drop_connections({Errc::kClosed, "the server has other addresses"});
  dial_missing(clock_.now());
}

void ClientCore::drop_connections(const Error& why) {
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    connections_[i].dial_at = {};
    drop_connection(i, why);
  }
}

void ClientCore::finish_close() {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  control_.reset();
  timer_.cancel();
  for (Connection& connection : connections_) {
    if (const auto channel = std::exchange(connection.channel, nullptr)) {
      channel->close({Errc::kClosed, "session client closed"}, false);
    }
  }
  if (closed_) std::exchange(closed_, nullptr)();
}

void ClientCore::abandon() {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosing;
  state_ = SessionClient::State::kClosed;
  fail_all({Errc::kCancelled, "session client destroyed"});
  finish_close();
}

}  // namespace weft::rpc
