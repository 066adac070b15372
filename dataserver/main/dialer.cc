#include "dataserver/main/dialer.h"

#include <boost/asio/steady_timer.hpp>

#include "rpc/peer/endpoint.h"
#include "rpc/transport/path_try.h"

namespace weft::ds {

namespace control = rpc::control;
using boost::system::error_code;
using rpc::PathTry;

// One request: lives until each of its paths was tried or given up. All on the dialer's thread.
class Dialer::Round : public std::enable_shared_from_this<Dialer::Round> {
 public:
  Round(boost::asio::io_context& io, Done done) : io_(io), timer_(io), done_(std::move(done)) {}

  void begin(const control::TryAddresses& request, std::chrono::milliseconds patience) {
    left_ = request.addresses.size();
    tried_.why.resize(left_);
    if (left_ == 0) return done_(std::move(tried_));
    timer_.expires_after(patience);
    timer_.async_wait([self = shared_from_this()](const error_code& stopped) {
      if (!stopped) self->give_up();
    });
    for (std::size_t at = 0; at < tried_.why.size(); ++at) {
      tries_.push_back(PathTry::begin(
          io_, rpc::peer::to_endpoint(request.addresses[at]), PathTry::To::kNfs,
          [self = shared_from_this(), at](const rpc::TriedPath& path) { self->ended(at, path); }));
    }
  }

  void give_up() {
    const auto self = shared_from_this();  // the last one ends it
    for (const auto& one : tries_) one->give_up();
  }

 private:
  void ended(std::size_t at, const rpc::TriedPath& path) {
    tried_.why[at] = path.error;
    if (!path.mtu.empty()) tried_.why[at] = std::string(control::kOfMtu) + path.mtu;
    if (--left_ > 0) return;
    timer_.cancel();
    done_(std::move(tried_));
  }

  boost::asio::io_context& io_;
  boost::asio::steady_timer timer_;
  std::vector<std::shared_ptr<PathTry>> tries_;
  std::size_t left_ = 0;  // that are under way
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
        thread_.context(), [this, shared](Result<control::TriedAddresses> tried) {
          round_.reset();
          busy_ = false;
          (*shared)(std::move(tried));
        });
    round_ = round;
    round->begin(request, patience_);
  });
  if (!posted) (*shared)(fail(Errc::kClosed, "shutting down"));
}

void Dialer::stop() {
  thread_.stop([this] {
    if (round_ != nullptr) round_->give_up();
  });
}

}  // namespace weft::ds
