#include "dataserver/main/dialer.h"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "rpc/peer/endpoint.h"

namespace weft::ds {

namespace control = rpc::control;
using boost::asio::ip::tcp;
using boost::system::error_code;

// One request: lives until each of its connections was made, failed or was given up. All on the
// dialer's thread.
class Dialer::Round : public std::enable_shared_from_this<Dialer::Round> {
 public:
  Round(boost::asio::io_context& io, const control::TryAddresses& request, Done done)
      : timer_(io), left_(request.addresses.size()), done_(std::move(done)) {
    tried_.why.resize(left_);
    for (const layout::NetAddress& address : request.addresses) {
      points_.push_back(rpc::peer::to_endpoint(address));
      sockets_.emplace_back(io);
    }
  }

  void begin(std::chrono::milliseconds patience) {
    if (left_ == 0) return done_(std::move(tried_));
    timer_.expires_after(patience);
    timer_.async_wait([self = shared_from_this()](const error_code& stopped) {
      if (!stopped) self->give_up();
    });
    for (std::size_t at = 0; at < sockets_.size(); ++at) {
      sockets_[at].async_connect(
          points_[at],
          [self = shared_from_this(), at](const error_code& failed) { self->ended(at, failed); });
    }
  }

  void give_up() {
    error_code ignored;
    for (tcp::socket& socket : sockets_) socket.close(ignored);
  }

 private:
  void ended(std::size_t at, const error_code& failed) {
    const bool given_up = failed == boost::asio::error::operation_aborted;
    if (failed) tried_.why[at] = given_up ? "no answer" : failed.message();
    error_code ignored;
    sockets_[at].close(ignored);
    if (--left_ > 0) return;
    timer_.cancel();
    done_(std::move(tried_));
  }

  boost::asio::steady_timer timer_;
  std::vector<tcp::endpoint> points_;
  std::vector<tcp::socket> sockets_;
  std::size_t left_;  // that are under way
  control::TriedAddresses tried_;
  Done done_;
};

Dialer::Dialer(std::chrono::milliseconds patience) : patience_(patience) { thread_.start(); }

Dialer::~Dialer() { stop(); }

void Dialer::try_all(const control::TryAddresses& request, Done done) {
  if (busy_.exchange(true)) return done(fail(Errc::kBusy, "it tries other addresses just now"));
  auto shared = std::make_shared<Done>(std::move(done));
  const bool posted = thread_.post([this, request, shared] {
    const auto round = std::make_shared<Round>(
        thread_.context(), request, [this, shared](Result<control::TriedAddresses> tried) {
          round_.reset();
          busy_ = false;
          (*shared)(std::move(tried));
        });
    round_ = round;
    round->begin(patience_);
  });
  if (!posted) (*shared)(fail(Errc::kClosed, "shutting down"));
}

void Dialer::stop() {
  thread_.stop([this] {
    if (round_ != nullptr) round_->give_up();
  });
}

}  // namespace weft::ds
