// The admin socket's caller: what the `weft` command asks the metadata server with.
//
// Threading: plain functions; each call makes a connection of its own, and blocks.
#pragma once

#include <chrono>
#include <string>

#include "ganesha-fsal/admin/protocol.h"
#include "rpc/base/error.h"

namespace weft::mds::admin {

// One line sent, and the one that is answered; both with their ends. The errors of Client.
[[nodiscard]] Result<std::string> exchange(const std::string& socket_path, const std::string& line,
                                           std::chrono::milliseconds timeout);

class Client {
 public:
  explicit Client(std::string socket_path,
                  std::chrono::milliseconds timeout = std::chrono::milliseconds(10'000))
      : path_(std::move(socket_path)), timeout_(timeout) {}

  // kNotFound, kUnreachable, kAccess when the socket is not there, not served, not ours to use;
  // kTimedOut; kNotSupported when a server of another version is there; else the metadata server's
  // own error.
  // kInvalid: a text is too long for a request, or has a zero byte.
  template <Request R>
  [[nodiscard]] Result<typename R::Reply> ask(const R& request) const {
    if (!from_json<R>(to_json(request), R::kName)) {
      return fail(Errc::kInvalid, "a name that is too long, or none");
    }
    auto reply = exchange(path_, request_line(request), timeout_);
    if (!reply) return pass(reply);
    if (const auto version = other_version(*reply)) {
      reply = exchange(path_, request_line(request, *version), timeout_);
      if (!reply) return pass(reply);
    }
    return read_reply<typename R::Reply>(*reply);
  }

  [[nodiscard]] const std::string& socket_path() const { return path_; }

 private:
  std::string path_;
  std::chrono::milliseconds timeout_;
};

}  // namespace weft::mds::admin
