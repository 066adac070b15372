#include "tools/weft/setup/join_server.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <list>

#include "rpc/base/log_text.h"
#include "rpc/peer/connection.h"
#include "rpc/peer/endpoint.h"
#include "rpc/peer/io_thread.h"

namespace weft::cli {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;
using rpc::peer::Bytes;
using rpc::peer::ClusterKeys;
using rpc::peer::Connection;
using rpc::peer::Done;
using rpc::peer::SecureChannel;

}  // namespace

class JoinServer::Impl {
 public:
  explicit Impl(Config config)
      : config_(std::move(config)), acceptor_(io_->context()), pause_(io_->context()) {
    requests_.on<Join>(
        [this](const PeerPtr& peer, Join join, Done<Joined> done) { done(on_join(*peer, join)); });
  }

  Result<> start() {
    const tcp::endpoint endpoint = rpc::peer::to_endpoint(config_.listen);
    error_code error;
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(static_cast<int>(config_.most_connections), error);
    if (error) return fail_errno(error.value(), "listen on " + to_string(config_.listen));
    address_ = rpc::peer::from_endpoint(acceptor_.local_endpoint(error));
    accept();
    io_->start();
    return {};
  }

  void stop() {
    io_->stop([this] {
      stopping_ = true;
      error_code ignored;
      acceptor_.close(ignored);
      pause_.cancel();
      for (const PeerPtr& peer : peers_) peer->connection->close({Errc::kClosed, "it ends"});
    });
  }

  [[nodiscard]] layout::NetAddress address() const { return address_; }

 private:
  struct Peer {
    std::shared_ptr<Connection> connection;
    layout::NetAddress from;
    bool proved = false;  // that it has the token
  };
  using PeerPtr = std::shared_ptr<Peer>;

  void accept() {
    acceptor_.async_accept([this](const error_code& error, tcp::socket socket) {
      if (stopping_) return;
      if (!error) on_accepted(std::move(socket));
      pause_.expires_after(config_.pause);
      pause_.async_wait([this](const error_code&) {
        if (!stopping_) accept();
      });
    });
  }

  void on_accepted(tcp::socket socket) {
    error_code gone;
    const auto from = socket.remote_endpoint(gone);
    if (gone) return;
    auto peer = std::make_shared<Peer>();
    peer->from = rpc::peer::from_endpoint(from);
    make_way(*peer);
    ClusterKeys secrets = config_.secrets();
    // Without a valid token it is as with one that the peer does not have.
    if (secrets.empty()) secrets.push_back(rpc::peer::random_cluster_key());
    peer->connection = std::make_shared<Connection>(
        io_, std::move(socket), SecureChannel(SecureChannel::Role::kConnecting, std::move(secrets)),
        Connection::Limits{.max_calls = 1,
                           .max_unsent_bytes = std::size_t{64} << 10,
                           .handshake = config_.handshake,
                           .silence = config_.handshake});
    peers_.push_back(peer);
    peer->connection->start(
        {.on_established = [peer] { peer->proved = true; },
         .on_call =
             [this, peer](std::uint32_t verb, const Bytes& arguments,
                          Connection::Responder respond) {
               requests_.serve(peer, verb, arguments, std::move(respond));
             },
         .on_closed = [this, peer](const Error& why) { on_closed(peer, why); }});
  }

  // For one more: the oldest gives way, of its own address first.
  void make_way(const Peer& next) {
    const auto same = [&next](const PeerPtr& peer) { return peer->from.ip == next.from.ip; };
    const auto give_way = [this](auto oldest) {
      const PeerPtr peer = *oldest;
      peers_.erase(oldest);
      peer->connection->close({Errc::kBusy, "it gives way to others"});
    };
    if (static_cast<std::size_t>(std::ranges::count_if(peers_, same)) >=
        config_.most_of_an_address) {
      give_way(std::ranges::find_if(peers_, same));
    }
    if (peers_.size() >= config_.most_connections) give_way(peers_.begin());
  }

  Result<Joined> on_join(const Peer& peer, const Join& join) {
    const ClusterKeys valid = config_.secrets();
    if (std::ranges::find(valid, peer.connection->key()) == valid.end()) {
      return fail(Errc::kAuth, "the token has expired");
    }
    auto answer = config_.answer();
    if (!answer) {
      spdlog::error("event=join_failed from={} why=\"{}\"", to_string(peer.from),
                    log_text(answer.error().describe()));
      return answer;
    }
    spdlog::info("event=key_given from={} name=\"{}\"", to_string(peer.from), log_text(join.name));
    return answer;
  }

  void on_closed(const PeerPtr& peer, const Error& why) {
    peers_.remove(peer);
    if (peer->proved || stopping_) return;
    spdlog::warn("event=join_refused from={} why=\"{}\"", to_string(peer->from),
                 log_text(why.text));
  }

  const Config config_;
  const std::shared_ptr<rpc::peer::IoThread> io_ = std::make_shared<rpc::peer::IoThread>();
  tcp::acceptor acceptor_;
  boost::asio::steady_timer pause_;
  layout::NetAddress address_;
  // Used on the thread only.
  bool stopping_ = false;
  rpc::peer::Table<PeerPtr> requests_;
  std::list<PeerPtr> peers_;  // the oldest first
};

JoinServer::JoinServer(Config config) : impl_(std::make_shared<Impl>(std::move(config))) {}
JoinServer::~JoinServer() { stop(); }
Result<> JoinServer::start() { return impl_->start(); }
void JoinServer::stop() { impl_->stop(); }
layout::NetAddress JoinServer::address() const { return impl_->address(); }

}  // namespace weft::cli
