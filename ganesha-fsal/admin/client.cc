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

template <class Report>
Result<Report> ask(const std::string& path, std::chrono::milliseconds timeout,
                   const Request& request) {
  auto reply = exchange(path, request_line(request), timeout);
  if (!reply) return pass(reply);
  return read_reply<Report>(*reply);
}

// A path that is too long for a request names nothing.
Result<> check_path(const std::string& path) {
  if (path.size() <= kMaxArgumentBytes) return {};
  return fail(Errc::kNameTooLong, path.substr(0, 64) + "...");
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

Result<SystemReport> Client::status() const {
  return ask<SystemReport>(path_, timeout_, {.operation = Operation::kStatus});
}

Result<std::vector<DataServerReport>> Client::data_servers() const {
  auto report = ask<DataServersReport>(path_, timeout_, {.operation = Operation::kDataServers});
  if (!report) return pass(report);
  return std::move(report->data_servers);
}

Result<FileReport> Client::file(const std::string& path) const {
  if (auto fine = check_path(path); !fine) return pass(fine);
  return ask<FileReport>(path_, timeout_, {Operation::kFile, path, {}});
}

Result<PolicyReport> Client::policy(const std::string& path) const {
  if (auto fine = check_path(path); !fine) return pass(fine);
  return ask<PolicyReport>(path_, timeout_, {Operation::kPolicy, path, {}});
}

Result<PolicyReport> Client::set_policy(const std::string& path, const std::string& policy) const {
  if (auto fine = check_path(path); !fine) return pass(fine);
  if (policy.size() > kMaxValueBytes) return fail(Errc::kInvalid, "a policy of over 512 bytes");
  return ask<PolicyReport>(path_, timeout_, {Operation::kSetPolicy, path, policy});
}

Result<PolicyReport> Client::change_policy(const std::string& path, const std::string& keys) const {
  if (auto fine = check_path(path); !fine) return pass(fine);
  if (keys.size() > kMaxValueBytes) return fail(Errc::kInvalid, "a policy of over 512 bytes");
  return ask<PolicyReport>(path_, timeout_, {Operation::kChangePolicy, path, keys});
}

Result<MaintenanceReport> Client::maintain(const std::string& what, const std::string& whom) const {
  if (whom.size() > kMaxValueBytes) return fail(Errc::kInvalid, "a name of over 512 bytes");
  return ask<MaintenanceReport>(path_, timeout_, {Operation::kMaintain, what, whom});
}

}  // namespace weft::mds::admin
