#include "ganesha-fsal/admin/client.h"

#include <sys/socket.h>

#include <boost/asio.hpp>

#include "ganesha-fsal/admin/protocol.h"
#include "rpc/base/machine.h"

namespace weft::mds::admin {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Socket = asio::local::stream_protocol::socket;

// Waits for room in the listener's queue, but not longer than `timeout`: a connect() that does not
// block fails at once instead.
Result<> connect(Socket& socket, const std::string& path, std::chrono::milliseconds timeout) {
  if (path.empty() || path.size() > kMaxSocketPath) {
    return fail(Errc::kInvalid, "the socket's path is empty or longer than " +
                                    std::to_string(kMaxSocketPath) + ": " + path);
  }
  error_code failed;
  static_cast<void>(socket.open({}, failed));
  if (failed) return fail_errno(failed.value(), "socket");
  const timeval longest{.tv_sec = timeout.count() / 1000, .tv_usec = timeout.count() % 1000 * 1000};
  static_cast<void>(
      ::setsockopt(socket.native_handle(), SOL_SOCKET, SO_SNDTIMEO, &longest, sizeof longest));
  static_cast<void>(socket.connect({path}, failed));
  if (!failed) return {};
  if (failed.value() == ECONNREFUSED) return fail(Errc::kUnreachable, path);
  if (failed.value() == EAGAIN) return fail(Errc::kTimedOut, path);
  return fail_errno(failed.value(), path);
}

}  // namespace

Result<std::string> exchange(const std::string& socket_path, const std::string& line,
                             std::chrono::milliseconds timeout) {
  asio::io_context io;
  Socket socket(io);
  if (auto connected = connect(socket, socket_path, timeout); !connected) return pass(connected);
  std::string reply;
  std::size_t size = 0;
  error_code failed = asio::error::would_block;  // until one of both has ended
  const auto read = [&](const error_code& sent, std::size_t) {
    // A server that refuses a request says so, and may close before it has read all of it.
    if (sent && sent != asio::error::broken_pipe) {
      failed = sent;
      return;
    }
    asio::async_read_until(socket, asio::dynamic_buffer(reply, kMaxReplyBytes), '\n',
                           [&](const error_code& got, std::size_t until) {
                             failed = got;
                             size = until;
                           });
  };
  asio::async_write(socket, asio::buffer(line), read);
  io.run_for(timeout);
  if (failed == asio::error::would_block) {
    return fail(Errc::kTimedOut, "no answer on the admin socket");
  }
  if (failed == asio::error::not_found) return fail(Errc::kTooLarge, "the admin reply");
  if (failed) {
    return fail(Errc::kNotSupported,
                "the metadata server closed the admin connection without an answer. If this goes "
                "on: install the same version of weft and libfsalweft.so, restart ganesha.nfsd");
  }
  return reply.substr(0, size);
}

}  // namespace weft::mds::admin
