#include "rpc/transport/tcp_dialer.h"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "rpc/transport/tcp_channel.h"

namespace weft::rpc {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;
using Done = std::move_only_function<void(Result<std::shared_ptr<Channel>>)>;

// One attempt. Its pending operations own it.
struct Attempt : std::enable_shared_from_this<Attempt> {
  Attempt(boost::asio::io_context& context, Done on_done)
      : socket(context), timer(context), done(std::move(on_done)) {}

  void finish(Result<std::shared_ptr<Channel>> result) {
    timer.cancel();
    if (done) std::exchange(done, nullptr)(std::move(result));
  }

  tcp::socket socket;
  boost::asio::steady_timer timer;
  Done done;
};

}  // namespace

Dial tcp_dialer(boost::asio::io_context& context, BufferPool& pool, std::string address,
                std::uint16_t port, TcpLimits limits, Milliseconds connect_deadline) {
  return [&context, &pool, address = std::move(address), port, limits,
          connect_deadline](Done done) {
    auto attempt = std::make_shared<Attempt>(context, std::move(done));
    const std::string where = address + ":" + std::to_string(port);
    error_code error;
    const auto parsed = boost::asio::ip::make_address(address, error);
    if (error) {
      boost::asio::post(context, [attempt, where] {
        attempt->finish(fail(Errc::kInvalid, "not a numeric address: " + where));
      });
      return;
    }
    attempt->timer.expires_after(connect_deadline);
    attempt->timer.async_wait([attempt, where](const error_code& cancelled) {
      if (cancelled || !attempt->done) return;
      error_code ignored;
      attempt->socket.close(ignored);
      attempt->finish(fail(Errc::kTimedOut, "connect to " + where));
    });
    attempt->socket.async_connect(
        tcp::endpoint(parsed, port), [attempt, where, &pool, limits](const error_code& failed) {
          if (!attempt->done) return;
          if (failed)
            return attempt->finish(
                fail(Errc::kUnreachable, "connect to " + where + ": " + failed.message()));
          attempt->finish(std::make_shared<TcpChannel>(std::move(attempt->socket), pool, limits));
        });
  };
}

}  // namespace weft::rpc
