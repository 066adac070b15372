// The admin socket's caller: what the `weft` command asks the metadata server with.
//
// Threading: plain functions; each call makes a connection of its own, and blocks.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "ganesha-fsal/admin/source.h"
#include "rpc/base/error.h"

namespace weft::mds::admin {

class Client {
 public:
  explicit Client(std::string socket_path,
                  std::chrono::milliseconds timeout = std::chrono::milliseconds(10'000))
      : path_(std::move(socket_path)), timeout_(timeout) {}

  // kNotFound, kUnreachable, kAccess when the socket is not there, not served, not ours to use;
  // kTimedOut; kNotSupported when a server of another version is there; else the metadata server's
  // own error.
  [[nodiscard]] Result<SystemReport> status() const;
  [[nodiscard]] Result<std::vector<DataServerReport>> data_servers() const;
  [[nodiscard]] Result<FileReport> file(const std::string& path) const;
  [[nodiscard]] Result<PolicyReport> policy(const std::string& path) const;
  [[nodiscard]] Result<PolicyReport> set_policy(const std::string& path,
                                                const std::string& policy) const;
  [[nodiscard]] Result<PolicyReport> change_policy(const std::string& path,
                                                   const std::string& keys) const;

  [[nodiscard]] Result<MaintenanceReport> maintain(const std::string& what,
                                                   const std::string& whom) const;

  [[nodiscard]] const std::string& socket_path() const { return path_; }

 private:
  std::string path_;
  std::chrono::milliseconds timeout_;
};

// One line sent, and the one that is answered; both with their ends. The errors of Client.
[[nodiscard]] Result<std::string> exchange(const std::string& socket_path, const std::string& line,
                                           std::chrono::milliseconds timeout);

}  // namespace weft::mds::admin
