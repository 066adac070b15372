#include "tools/weft/setup/ask_to_join.h"

#include <spdlog/fmt/fmt.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <charconv>
#include <future>
#include <memory>

#include "layout/wildcard.h"
#include "rpc/peer/connection.h"
#include "rpc/peer/endpoint.h"
#include "rpc/peer/io_thread.h"
#include "tools/weft/setup/tokens.h"
#include "tools/weft/table.h"

namespace weft::cli {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;
using rpc::peer::Connection;
using rpc::peer::SecureChannel;

struct HostPort {
  std::string host;
  std::string port = std::to_string(kJoinPort);
};

Result<HostPort> split(const std::string& text) {
  HostPort out{.host = text};
  const std::size_t colon = text.rfind(':');
  const bool bracketed = text.starts_with('[');
  // An IPv6 address has more colons than one.
  if (colon != std::string::npos && (bracketed || text.find(':') == colon)) {
    const std::size_t end = bracketed ? text.rfind(']') : colon;
    const bool has_port = !bracketed || (end != std::string::npos && end + 1 == colon);
    if (has_port) {
      out.port = text.substr(colon + 1);
      out.host = text.substr(0, colon);
    }
  }
  if (bracketed && out.host.ends_with(']')) out.host = out.host.substr(1, out.host.size() - 2);
  std::uint16_t port = 0;
  const char* const last = out.port.data() + out.port.size();
  const auto [end, error] = std::from_chars(out.port.data(), last, port);
  if (out.host.empty() || error != std::errc{} || end != last || port == 0) {
    return fail(Errc::kInvalid, printable(text) + " is not HOST or HOST:PORT");
  }
  return out;
}

struct Answer {
  Result<Joined> joined = fail(Errc::kTimedOut);
  tcp::endpoint own;
  tcp::endpoint other;
};

// Connects, proves, asks; the promise is kept once. Everything on the thread of `io`.
class Asker : public std::enable_shared_from_this<Asker> {
 public:
  Asker(std::shared_ptr<rpc::peer::IoThread> io, rpc::peer::ClusterKey secret, std::string name,
        std::chrono::milliseconds timeout)
      : io_(std::move(io)),
        socket_(io_->context()),
        timer_(io_->context()),
        secret_(secret),
        name_(std::move(name)),
        timeout_(timeout) {}

  std::future<Answer> start(const tcp::resolver::results_type& where) {
    timer_.expires_after(timeout_);
    timer_.async_wait([self = shared_from_this()](const error_code& cancelled) {
      if (!cancelled) self->finish(fail(Errc::kTimedOut, "it does not answer"));
    });
    boost::asio::async_connect(
        socket_, where, [self = shared_from_this()](const error_code& error, const tcp::endpoint&) {
          if (error) return self->finish(fail(Errc::kUnreachable, error.message()));
          self->on_connected();
        });
    return promise_.get_future();
  }

 private:
  void on_connected() {
    if (finished_) return;
    error_code ignored;
    answer_.own = socket_.local_endpoint(ignored);
    answer_.other = socket_.remote_endpoint(ignored);
    connection_ = std::make_shared<Connection>(
        io_, std::move(socket_), SecureChannel(SecureChannel::Role::kAccepting, {secret_}),
        Connection::Limits{.max_calls = 1, .handshake = timeout_, .silence = timeout_});
    const auto self = shared_from_this();
    connection_->start(
        {.on_established =
             [self] {
               self->connection_->call(
                   Join{self->name_}, self->timeout_,
                   [self](Result<Joined> joined) { self->finish(std::move(joined)); });
             },
         .on_call = [](std::uint32_t, const rpc::peer::Bytes&,
                       Connection::Responder respond) { respond(fail(Errc::kNotSupported)); },
         .on_closed = [self](const Error& why) { self->finish(std::unexpected(why)); }});
  }

  void finish(Result<Joined> joined) {
    if (std::exchange(finished_, true)) return;
    timer_.cancel();
    error_code ignored;
    socket_.close(ignored);
    if (connection_) connection_->close({Errc::kClosed, "done"});
    answer_.joined = std::move(joined);
    promise_.set_value(std::move(answer_));
  }

  const std::shared_ptr<rpc::peer::IoThread> io_;
  tcp::socket socket_;
  boost::asio::steady_timer timer_;
  const rpc::peer::ClusterKey secret_;
  const std::string name_;
  const std::chrono::milliseconds timeout_;
  std::shared_ptr<Connection> connection_;
  bool finished_ = false;
  Answer answer_;
  std::promise<Answer> promise_;
};

std::unexpected<Error> explain(const HostPort& at, const Error& error) {
  switch (error.code) {
    case Errc::kAuth:
      return fail(Errc::kAuth, fmt::format("{} does not accept this token: it is wrong, or its 15 "
                                           "minutes are over; weft token makes another there",
                                           at.host));
    case Errc::kTimedOut:
    case Errc::kUnreachable:
      return fail(error.code,
                  fmt::format("nobody takes tokens at {} port {} ({}): run weft token there, and "
                              "let its firewall pass TCP port {} from here",
                              at.host, at.port, error.text, at.port));
    default: return fail(error.code, fmt::format("{}: {}", at.host, printable(error.text)));
  }
}

Result<JoinAnswer> check(const HostPort& at, const Answer& answer) {
  const auto bad = [&] {
    return fail(Errc::kProtocol, at.host +
                                     " answers what this weft does not understand: install "
                                     "the same version of Weft on both machines");
  };
  auto keys = rpc::peer::parse_cluster_keys(answer.joined->keys);
  auto mds = layout::parse_address(answer.joined->mds);
  if (!keys || !mds || mds->port == 0) return bad();
  JoinAnswer out{.mds = *mds,
                 .keys = std::move(*keys),
                 .key_file = answer.joined->keys,
                 .own = rpc::peer::from_endpoint(answer.own)};
  out.own.port = 0;
  if (layout::is_wildcard(out.mds)) {
    out.mds = rpc::peer::from_endpoint(answer.other);
    out.mds.port = mds->port;
  }
  return out;
}

}  // namespace

Result<JoinAnswer> ask_to_join(const std::string& host, const std::string& token,
                               const std::string& name, std::chrono::milliseconds timeout) {
  const auto secret = token_secret(token);
  if (!secret) return std::unexpected(secret.error());
  const auto at = split(host);
  if (!at) return std::unexpected(at.error());
  const auto io = std::make_shared<rpc::peer::IoThread>();
  error_code error;
  const auto where = tcp::resolver(io->context()).resolve(at->host, at->port, error);
  if (error) {
    io->stop([] {});
    return fail(Errc::kInvalid, printable(at->host) + ": " + error.message());
  }
  auto waiting = std::make_shared<Asker>(io, *secret, name, timeout)->start(where);
  io->start();
  const Answer answer = waiting.get();
  io->stop([] {});
  if (!answer.joined) return explain(*at, answer.joined.error());
  return check(*at, answer);
}

}  // namespace weft::cli
