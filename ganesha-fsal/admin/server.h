// The admin socket's server end, inside the metadata server.
//
// One thread serves one caller at a time: a request is answered from the AdminSource within a
// deadline, and the connection closed. Callers beyond the listen queue (16) are refused by the
// kernel. Only root and the user this process runs as are served, which the socket's mode says and
// SO_PEERCRED makes sure of. A caller that sends nothing, or does not read, costs the deadline and
// its connection, nothing else.
//
// Ownership: the AdminSource outlives the server. Destruction ends the thread (a request under way
// is finished first) and removes the socket file.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "ganesha-fsal/admin/source.h"
#include "rpc/base/buffer.h"
#include "rpc/base/error.h"

namespace weft::mds::admin {

class Server {
 public:
  struct Config {
    std::string socket_path;
    std::chrono::milliseconds deadline{2000};  // for a caller's request, and for taking the reply
  };

  // Listens and starts the thread. kExists when another process serves this socket.
  [[nodiscard]] static Result<std::unique_ptr<Server>> start(Config config, AdminSource& source);

  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server();

 private:
  Server(Config config, AdminSource& source, OwnedFd listener, OwnedFd stop);
  void run();
  void serve(int fd);

  Config config_;
  AdminSource& source_;
  OwnedFd listener_;
  OwnedFd stop_;  // an eventfd: readable once the server is to end
  std::thread thread_;
};

}  // namespace weft::mds::admin
