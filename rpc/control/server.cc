#include "rpc/control/server.h"

#include <pthread.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <list>
#include <map>
#include <set>

#include "rpc/base/in_order_made.h"
#include "rpc/control/register_networks.h"
#include "rpc/control/register_transports.h"
#include "rpc/peer/connection.h"
#include "rpc/peer/endpoint.h"
#include "rpc/peer/io_thread.h"

namespace weft::rpc::control {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;
using peer::Bytes;
using peer::Connection;
using peer::from_endpoint;
using peer::SecureChannel;
using peer::to_endpoint;

// How long accepting pauses after it failed (no descriptors left, say).
constexpr std::chrono::milliseconds kAcceptPause{100};

}  // namespace

class Server::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(Config config, ServerEvents& events, peer::Table<std::uint32_t> requests)
      : config_(std::move(config)),
        events_(events),
        acceptor_(io_->context()),
        pause_(io_->context()),
        requests_(std::move(requests)) {
    registration_.on<Register>(
        [this](const PeerPtr& peer, Register request, Done<Registered> done) {
          on_register(peer, std::move(request), std::move(done));
        });
    registration_.on<RegisterTransports>(
        [this](const PeerPtr& peer, RegisterTransports request, Done<Registered> done) {
          on_register(peer, std::move(request.all), std::move(done));
        });
    registration_.on<RegisterNetworks>(
        [this](const PeerPtr& peer, RegisterNetworks request, Done<Registered> done) {
          on_register(peer, std::move(request.all), std::move(done));
        });
  }

  Result<> start();
  void stop();
  [[nodiscard]] layout::NetAddress address() const { return address_; }

  // Sends a call on the data server's connection, from any thread.
  void call(std::uint32_t ds_id, std::uint32_t verb, Bytes arguments, Timeout timeout,
            Done<Bytes> done);
  void disconnect(std::uint32_t ds_id);

 private:
  // A connection and what is known of who is behind it.
  struct Peer : Numbered {
    std::shared_ptr<Connection> connection;
    layout::NetAddress from;
    bool registering = false;
    std::uint32_t ds_id = 0;  // 0 until registered
  };
  using PeerPtr = std::shared_ptr<Peer>;

  void accept();
  void on_accepted(tcp::socket socket);
  // For one more stranger from there.
  void make_way(const layout::NetAddress& from);
  void on_established(const PeerPtr& peer);
  void on_call(const PeerPtr& peer, std::uint32_t verb, const Bytes& arguments,
               Connection::Responder respond);
  void on_register(const PeerPtr& peer, Register request, Done<Registered> done);
  void on_answered(const PeerPtr& peer, Result<Registered> answer, Done<Registered> done);
  void on_closed(const PeerPtr& peer, const Error& why);
  // Closes a connection under another key than the one in use.
  [[nodiscard]] bool outlives_key(const PeerPtr& peer);

  const Config config_;
  ServerEvents& events_;
  const std::shared_ptr<peer::IoThread> io_ = std::make_shared<peer::IoThread>();
  tcp::acceptor acceptor_;
  boost::asio::steady_timer pause_;
  layout::NetAddress address_;
  // Used on the thread only.
  bool stopping_ = false;
  peer::Table<PeerPtr> registration_;  // the one request of who has no id yet
  peer::Table<std::uint32_t> requests_;
  std::set<PeerPtr, InOrderMade> peers_;
  std::list<PeerPtr> strangers_;  // of these, the oldest first
  std::map<std::uint32_t, PeerPtr> registered_;
};

Result<> Server::Impl::start() {
  const tcp::endpoint endpoint = to_endpoint(config_.listen);
  error_code error;
  const auto step = [&](std::string_view doing) -> Result<> {
    if (!error) return {};
    return fail_errno(error.value(), std::string(doing) + " " + to_string(config_.listen));
  };
  acceptor_.open(endpoint.protocol(), error);
  if (auto done = step("open a socket for"); !done) return done;
  acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (auto done = step("set up a socket for"); !done) return done;
  acceptor_.bind(endpoint, error);
  if (auto done = step("bind"); !done) return done;
  acceptor_.listen(boost::asio::socket_base::max_listen_connections, error);
  if (auto done = step("listen on"); !done) return done;
  address_ = from_endpoint(acceptor_.local_endpoint(error));
  accept();
  io_->start();
  (void)io_->post([] { ::pthread_setname_np(::pthread_self(), "weft-control"); });
  return {};
}

void Server::Impl::stop() {
  io_->stop([this] {
    stopping_ = true;
    error_code ignored;
    acceptor_.close(ignored);
    pause_.cancel();
    // Closing a connection takes it out of peers_ later, by on_closed.
    for (const PeerPtr& peer : peers_) peer->connection->close({Errc::kClosed, "shutting down"});
  });
}

void Server::Impl::accept() {
  acceptor_.async_accept([this](const error_code& error, tcp::socket socket) {
    if (stopping_) return;
    if (!error) {
      on_accepted(std::move(socket));
      return accept();
    }
    spdlog::warn("event=control_accept_failed error=\"{}\"", error.message());
    pause_.expires_after(kAcceptPause);
    pause_.async_wait([this](const error_code&) {
      if (!stopping_) accept();
    });
  });
}

void Server::Impl::on_accepted(tcp::socket socket) {
  error_code gone;
  const auto from = socket.remote_endpoint(gone);
  if (gone) return;
  auto peer = std::make_shared<Peer>();
  peer->from = from_endpoint(from);
  make_way(peer->from);
  peer->connection = std::make_shared<Connection>(
      io_, std::move(socket),
      SecureChannel(SecureChannel::Role::kAccepting, config_.keys->now().cluster, config_.versions),
      Connection::Limits{.max_calls = config_.max_calls,
                         .handshake = config_.handshake_timeout,
                         .silence = config_.silence_timeout});
  peers_.insert(peer);
  strangers_.push_back(peer);
  peer->connection->start(
      {.on_established = [this, peer] { on_established(peer); },
       .on_call =
           [this, peer](std::uint32_t verb, const Bytes& arguments, Connection::Responder respond) {
             on_call(peer, verb, arguments, std::move(respond));
           },
       .on_closed = [this, peer](const Error& why) { on_closed(peer, why); }});
}

void Server::Impl::make_way(const layout::NetAddress& from) {
  const auto give_way = [this](auto oldest) {
    const PeerPtr peer = *oldest;
    strangers_.erase(oldest);
    peer->connection->close({Errc::kBusy, "gives way: it has not shown that it has the key"});
  };
  const auto of_address = [&from](const PeerPtr& peer) { return peer->from.ip == from.ip; };
  if (std::ranges::count_if(strangers_, of_address) >=
      static_cast<std::ptrdiff_t>(config_.max_strangers_per_address)) {
    give_way(std::ranges::find_if(strangers_, of_address));
  }
  if (strangers_.size() >= config_.max_strangers) give_way(strangers_.begin());
}

void Server::Impl::on_established(const PeerPtr& peer) {
  strangers_.remove(peer);
  if (peers_.size() - strangers_.size() <= config_.max_connections) return;
  peer->connection->close({Errc::kBusy, "too many connections"});
}

void Server::Impl::on_closed(const PeerPtr& peer, const Error& why) {
  peers_.erase(peer);
  strangers_.remove(peer);
  const auto found = registered_.find(peer->ds_id);
  if (found != registered_.end() && found->second == peer) {
    registered_.erase(found);
    events_.on_disconnected(peer->ds_id, why);
  } else if (!peer->registering && !stopping_) {
    events_.on_dropped(peer->from, why);
  }
}

bool Server::Impl::outlives_key(const PeerPtr& peer) {
  if (peer->connection->key() == config_.keys->first()) return false;
  peer->connection->close({Errc::kAuth, "another cluster key is in use now"});
  return true;
}

void Server::Impl::on_call(const PeerPtr& peer, std::uint32_t verb, const Bytes& arguments,
                           Connection::Responder respond) {
  if (outlives_key(peer)) return;
  if (verb == Register::kVerb || verb == RegisterTransports::kVerb ||
      verb == RegisterNetworks::kVerb) {
    return registration_.serve(peer, verb, arguments, std::move(respond));
  }
  if (peer->ds_id == 0) {
    return peer->connection->close({Errc::kProtocol, "a call before registering"});
  }
  requests_.serve(peer->ds_id, verb, arguments, std::move(respond));
}

// On the server's thread; the event may answer on any, and the rest is done on ours.
void Server::Impl::on_register(const PeerPtr& peer, Register request, Done<Registered> done) {
  if (std::exchange(peer->registering, true)) {
    return peer->connection->close({Errc::kProtocol, "registers twice"});
  }
  events_.on_register(
      peer->from, std::move(request),
      [weak = weak_from_this(), peer, done = std::move(done)](Result<Registered> result) mutable {
        const auto self = weak.lock();
        if (self == nullptr) return;
        (void)self->io_->post([self = self.get(), peer, result = std::move(result),
                               done = std::move(done)]() mutable {
          self->on_answered(peer, std::move(result), std::move(done));
        });
      });
}

void Server::Impl::on_answered(const PeerPtr& peer, Result<Registered> answer,
                               Done<Registered> done) {
  if (!peer->connection->open()) return;
  if (!answer) return done(std::move(answer));
  WEFT_ASSERT(answer->ds_id != 0);
  const std::uint32_t ds_id = answer->ds_id;
  if (const auto older = registered_.extract(ds_id)) {
    const Error why{Errc::kClosed, "connected again"};
    events_.on_disconnected(ds_id, why);
    older.mapped()->connection->close(why);
  }
  peer->ds_id = ds_id;
  registered_[ds_id] = peer;
  done(std::move(answer));
  events_.on_connected(ds_id);
}

void Server::Impl::call(std::uint32_t ds_id, std::uint32_t verb, Bytes arguments, Timeout timeout,
                        Done<Bytes> done) {
  // Shared so that it is still ours when the thread refuses the work.
  auto completion = std::make_shared<Done<Bytes>>(std::move(done));
  const bool posted = io_->post([this, ds_id, verb, arguments = std::move(arguments), timeout,
                                 completion]() mutable {
    const auto found = registered_.find(ds_id);
    if (stopping_) return (*completion)(fail(Errc::kClosed, "shutting down"));
    if (found == registered_.end()) {
      return (*completion)(
          fail(Errc::kUnreachable, "data server " + std::to_string(ds_id) + " is not connected"));
    }
    const PeerPtr peer = found->second;
    if (outlives_key(peer)) {
      return (*completion)(fail(Errc::kUnreachable, "it is to connect with the new cluster key"));
    }
    peer->connection->send_call(verb, arguments, timeout, std::move(*completion));
  });
  if (!posted) (*completion)(fail(Errc::kClosed, "shut down"));
}

void Server::Impl::disconnect(std::uint32_t ds_id) {
  (void)io_->post([this, ds_id] {
    const auto found = registered_.find(ds_id);
    if (found != registered_.end()) {
      found->second->connection->close({Errc::kClosed, "disconnected by us"});
    }
  });
}

Server::Server(Config config, ServerEvents& events, peer::Table<std::uint32_t> requests)
    : impl_(std::make_shared<Impl>(std::move(config), events, std::move(requests))) {}
Server::~Server() { stop(); }

Result<> Server::start() { return impl_->start(); }
void Server::stop() { impl_->stop(); }
layout::NetAddress Server::address() const { return impl_->address(); }
void Server::disconnect(std::uint32_t ds_id) { impl_->disconnect(ds_id); }

void Server::send(std::uint32_t ds_id, std::uint32_t verb, peer::Bytes arguments, Timeout timeout,
                  Done<peer::Bytes> done) {
  impl_->call(ds_id, verb, std::move(arguments), timeout, std::move(done));
}

}  // namespace weft::rpc::control
