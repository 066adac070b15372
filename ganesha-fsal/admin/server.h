// The admin socket's server end, inside the metadata server.
//
// A thread answers requests by the Table, one after the other, and closes the connection.
// What changes something may wait for data servers, so another thread does that, one after the
// other too: who asks how things are does not wait for it. At most kMaxCallers are served at once;
// callers beyond them and the listen queue (16) wait in connect().
// Only root and the user this process runs as are served, which the socket's mode says and
// SO_PEERCRED makes sure of. A caller that sends nothing, or does not read, costs the deadline and
// its connection, nothing else.
//
// Ownership: the Table outlives the server. Destruction ends the threads (requests under way
// are finished first) and removes the socket file.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "ganesha-fsal/admin/requests.h"
#include "rpc/base/error.h"

namespace weft::mds::admin {

class Server {
 public:
  struct Config {
    std::string socket_path;
    std::chrono::milliseconds deadline{2000};  // for a caller's request, and for taking the reply
  };

  // Listens and starts the thread. A socket file that nobody listens at any more is replaced;
  // kExists when somebody does, or when something else than a socket is there. Missing folders are
  // made.
  [[nodiscard]] static Result<std::unique_ptr<Server>> start(Config config, const Table& table);

  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server();

 private:
  using Protocol = boost::asio::local::stream_protocol;

  Server(Config config, const Table& table);
  [[nodiscard]] Result<> listen();
  // Of the thread.
  void accept();

  static constexpr unsigned kMaxCallers = 16;
  class Caller;

  const Config config_;
  const Table& table_;
  boost::asio::io_context io_{1};
  Protocol::acceptor acceptor_{io_};
  boost::asio::steady_timer pause_{io_};
  unsigned callers_ = 0;    // the thread's
  bool accepting_ = false;  // likewise
  boost::asio::thread_pool changes_{1};
  std::thread thread_;
};

}  // namespace weft::mds::admin
