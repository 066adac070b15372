#include "rpc/control/client.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/connect.hpp>
#include <random>

#include "rpc/control/register_networks.h"
#include "rpc/control/register_transports.h"
#include "rpc/peer/connection.h"
#include "rpc/peer/io_thread.h"

namespace weft::rpc::control {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;
using peer::Bytes;
using peer::Connection;
using peer::SecureChannel;

constexpr std::chrono::milliseconds kNoLeaseYet{100};  // until the next heartbeat
constexpr std::uint32_t kLeastHeartbeatMs = 50;
constexpr std::uint32_t kMostHeartbeatMs = 60'000;
constexpr std::uint32_t kVersionWithDiskOthers = 6;  // before it a heartbeat ends without them
constexpr const char* kCompareKeys =
    ". Compare the key files: weft key show FILE, here and at the metadata server";

}  // namespace

class Client::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(Config config, ClientEvents& events, peer::Table<> requests)
      : config_(std::move(config)),
        events_(events),
        requests_(std::move(requests)),
        resolver_(io_->context()),
        socket_(io_->context()),
        timer_(io_->context()),
        backoff_(config_.backoff_min),
        jitter_(static_cast<std::mt19937::result_type>(system_random().u64())) {}

  void start();
  void stop();
  [[nodiscard]] bool registered() const { return registered_.load(std::memory_order_acquire); }
  void register_again();
  void call(std::uint32_t verb, Bytes arguments, Timeout timeout, Done<Bytes> done);

 private:
  [[nodiscard]] std::string address() const;  // for people
  // Each attempt: resolve, connect, prove, register. Whatever fails ends in lost().
  void attempt();
  void on_resolved(std::uint64_t attempt, const tcp::resolver::results_type& found);
  void on_connected();
  void send_registration();
  void on_answer(std::uint64_t attempt, Result<Registered> answer);
  void on_registered(std::uint64_t attempt, Result<> accepted, std::uint32_t heartbeat_ms);
  void beat();
  void arm(std::chrono::milliseconds after, std::move_only_function<void()> then);
  void lost(const Error& why);

  const Config config_;
  ClientEvents& events_;
  const std::shared_ptr<peer::IoThread> io_ = std::make_shared<peer::IoThread>();
  std::atomic<bool> registered_{false};
  // Used on the thread only.
  peer::Table<> requests_;
  tcp::resolver resolver_;
  tcp::socket socket_;
  boost::asio::steady_timer timer_;
  std::uint64_t failed_ = 0;   // attempts that did not come to a registration
  std::uint64_t attempt_ = 0;  // what belongs to an earlier one is ignored
  std::shared_ptr<Connection> connection_;
  std::chrono::milliseconds heartbeat_{1000};
  std::chrono::milliseconds backoff_;
  std::mt19937 jitter_;
  bool stopping_ = false;
};

void Client::Impl::start() {
  (void)io_->post([this] { attempt(); });
  io_->start();
}

void Client::Impl::stop() {
  io_->stop([this] {
    stopping_ = true;
    ++attempt_;
    registered_ = false;
    resolver_.cancel();
    timer_.cancel();
    error_code ignored;
    socket_.close(ignored);
    if (connection_) connection_->close({Errc::kClosed, "shutting down"});
    connection_.reset();
  });
}

void Client::Impl::arm(std::chrono::milliseconds after, std::move_only_function<void()> then) {
  timer_.expires_after(after);
  timer_.async_wait(
      [this, attempt = attempt_, then = std::move(then)](const error_code& error) mutable {
        if (!error && attempt == attempt_ && !stopping_) then();
      });
}

std::string Client::Impl::address() const {
  const bool v6 = config_.mds_host.find(':') != std::string::npos;
  return (v6 ? "[" + config_.mds_host + "]" : config_.mds_host) + ":" +
         std::to_string(config_.mds_port);
}

void Client::Impl::attempt() {
  const std::uint64_t attempt = ++attempt_;
  arm(config_.connect_timeout, [this] {
    lost({Errc::kTimedOut, address() + ": no answer: does a firewall drop what comes from here?"});
  });
  resolver_.async_resolve(
      config_.mds_host, std::to_string(config_.mds_port),
      [this, attempt](const error_code& error, const tcp::resolver::results_type& found) {
        if (attempt != attempt_) return;
        if (error) return lost({Errc::kUnreachable, config_.mds_host + ": " + error.message()});
        on_resolved(attempt, found);
      });
}

void Client::Impl::on_resolved(std::uint64_t attempt, const tcp::resolver::results_type& found) {
  // All are tried within an attempt, if they refuse it. One that does not answer takes all its
  // time, so that the next attempt begins with another.
  std::vector<tcp::endpoint> in_turn(found.begin(), found.end());
  if (!in_turn.empty()) {
    const auto first = static_cast<std::ptrdiff_t>(failed_ % in_turn.size());
    std::ranges::rotate(in_turn, in_turn.begin() + first);
  }
  socket_ = tcp::socket(io_->context());
  boost::asio::async_connect(
      socket_, in_turn, [this, attempt](const error_code& error, const tcp::endpoint&) {
        if (attempt != attempt_) return;
        if (error) return lost({Errc::kUnreachable, address() + ": " + error.message()});
        on_connected();
      });
}

void Client::Impl::on_connected() {
  const std::uint64_t attempt = attempt_;
  connection_ =
      std::make_shared<Connection>(io_, std::exchange(socket_, tcp::socket(io_->context())),
                                   SecureChannel(SecureChannel::Role::kConnecting,
                                                 config_.keys->now().cluster, config_.versions),
                                   Connection::Limits{.max_calls = config_.max_calls,
                                                      .handshake = config_.connect_timeout,
                                                      .silence = config_.silence_timeout});
  arm(config_.connect_timeout, [this] {
    lost({Errc::kTimedOut,
          "no handshake: is that a metadata server, and of the same version of Weft?"});
  });
  connection_->start(
      {.on_established =
           [this, attempt] {
             if (attempt == attempt_) send_registration();
           },
       .on_call =
           [this](std::uint32_t verb, const Bytes& arguments, Connection::Responder respond) {
             requests_.serve(verb, arguments, std::move(respond));
           },
       .on_closed =
           [this, attempt](const Error& why) {
             if (attempt != attempt_) return;
             lost(why == Errc::kAuth ? Error{why.code, why.text + kCompareKeys} : why);
           }});
}

void Client::Impl::send_registration() {
  arm(config_.connect_timeout, [this] { lost({Errc::kTimedOut, "registering takes too long"}); });
  const auto answered = [this, attempt = attempt_](Result<Registered> answer) {
    if (attempt == attempt_) on_answer(attempt, std::move(answer));
  };
  if (connection_->version() >= kVersionWithNetworks) {
    connection_->call(RegisterNetworks{events_.registration()}, config_.connect_timeout, answered);
  } else if (connection_->version() >= kVersionWithRdma) {
    connection_->call(RegisterTransports{events_.registration()}, config_.connect_timeout,
                      answered);
  } else {
    connection_->call(events_.registration(), config_.connect_timeout, answered);
  }
}

// An attempt that has not asked yet asks anew; one that has may have told what was before.
void Client::Impl::register_again() {
  (void)io_->post([this] {
    if (connection_ != nullptr) lost({Errc::kClosed, "its addresses have changed"});
  });
}

void Client::Impl::on_answer(std::uint64_t attempt, Result<Registered> answer) {
  if (!answer) return lost(answer.error());
  const std::uint32_t heartbeat_ms = answer->heartbeat_ms;
  // Putting the answer on disk and the fences in force takes the time it takes.
  timer_.cancel();
  events_.on_registered(
      std::move(*answer), [weak = weak_from_this(), attempt, heartbeat_ms](Result<> accepted) {
        const auto self = weak.lock();
        if (self == nullptr) return;
        (void)self->io_->post([self = self.get(), attempt, accepted, heartbeat_ms] {
          self->on_registered(attempt, accepted, heartbeat_ms);
        });
      });
}

void Client::Impl::on_registered(std::uint64_t attempt, Result<> accepted,
                                 std::uint32_t heartbeat_ms) {
  if (attempt != attempt_ || stopping_) return;
  if (!accepted) return lost(accepted.error());
  heartbeat_ =
      std::chrono::milliseconds(std::clamp(heartbeat_ms, kLeastHeartbeatMs, kMostHeartbeatMs));
  backoff_ = config_.backoff_min;
  registered_ = true;
  beat();
}

void Client::Impl::beat() {
  if (!config_.keys->accepts(connection_->key())) {
    return lost({Errc::kAuth, "the connection's cluster key was dropped"});
  }
  Heartbeat told = events_.heartbeat();
  if (connection_->version() < kVersionWithDiskOthers) told.load.measured.disk_others.reset();
  connection_->call(
      told, config_.silence_timeout,
      [this, attempt = attempt_, sent = config_.clock->now()](const Result<Lease>& answer) {
        if (attempt != attempt_) return;
        if (!answer) return lost(answer.error());
        events_.on_lease(sent, std::chrono::seconds(answer->seconds));
        if (answer->seconds == 0) arm(std::min(heartbeat_, kNoLeaseYet), [this] { beat(); });
      });
  if (registered_) arm(heartbeat_, [this] { beat(); });
}

void Client::Impl::lost(const Error& why) {
  if (stopping_) return;
  ++attempt_;  // whatever is still under way of this attempt is now ignored
  if (!registered_.exchange(false)) ++failed_;
  error_code ignored;
  resolver_.cancel();
  socket_.close(ignored);
  if (connection_) std::exchange(connection_, nullptr)->close(why);
  events_.on_disconnected(why);
  // Between half and all of the back-off, so that data servers do not all come at once.
  std::uniform_int_distribution<long> between(backoff_.count() / 2, backoff_.count());
  const std::chrono::milliseconds wait(between(jitter_));
  backoff_ = std::min(backoff_ * 2, config_.backoff_max);
  arm(wait, [this] { attempt(); });
}

void Client::Impl::call(std::uint32_t verb, Bytes arguments, Timeout timeout, Done<Bytes> done) {
  // Shared so that it is still ours when the thread refuses the work.
  auto completion = std::make_shared<Done<Bytes>>(std::move(done));
  const bool posted =
      io_->post([this, verb, arguments = std::move(arguments), timeout, completion]() mutable {
        if (stopping_) return (*completion)(fail(Errc::kClosed, "shutting down"));
        if (!registered_) {
          return (*completion)(fail(Errc::kUnreachable, "not connected to the metadata server"));
        }
        connection_->send_call(verb, arguments, timeout, std::move(*completion));
      });
  if (!posted) (*completion)(fail(Errc::kClosed, "shut down"));
}

Client::Client(Config config, ClientEvents& events, peer::Table<> requests)
    : impl_(std::make_shared<Impl>(std::move(config), events, std::move(requests))) {}
Client::~Client() { stop(); }

void Client::start() { impl_->start(); }
void Client::stop() { impl_->stop(); }
bool Client::registered() const { return impl_->registered(); }
void Client::register_again() { impl_->register_again(); }

void Client::send(std::uint32_t verb, peer::Bytes arguments, Timeout timeout,
                  Done<peer::Bytes> done) {
  impl_->call(verb, std::move(arguments), timeout, std::move(done));
}

}  // namespace weft::rpc::control
