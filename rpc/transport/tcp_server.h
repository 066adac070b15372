// The accepting end of the TCP transport.
//
// One listening socket on the first I/O thread; accepted connections go to the I/O threads in
// turn. Connections beyond the limits, in all or from one IP address, are closed at once and
// counted, as is a stranger that gives way to a newer one (tcp_options.h); when the process is out
// of file descriptors, accepting pauses for a moment instead of spinning.
//
// Threading: construct, bind(), listen() and stop() from one thread while the I/O threads run;
// `accept` is called on the new channel's thread.
#pragma once

#include <functional>
#include <memory>

#include "rpc/base/buffer.h"
#include "rpc/transport/channel.h"
#include "rpc/transport/io_threads.h"
#include "rpc/transport/tcp_options.h"

namespace weft::rpc {

class TcpServer {
 public:
  using Accept = std::function<void(std::shared_ptr<Channel>)>;

  // threads and pool must outlive the server and every channel of it.
  TcpServer(IoThreads& threads, BufferPool& pool, TcpServerOptions options, Accept accept);
  ~TcpServer();
  TcpServer(const TcpServer&) = delete;
  TcpServer& operator=(const TcpServer&) = delete;

  // The address is ours, and nobody else's, or it fails; whoever connects is refused until
  // listen(). The port really used is in port() afterwards.
  [[nodiscard]] Result<> bind();
  // Binds, if that was not done, listens and begins to accept.
  [[nodiscard]] Result<> listen();
  // Stops accepting; connections that exist are not touched. Waits for the acceptor to be gone.
  void stop();
  // Ends the connections there are, those of an I/O thread that hangs as well, and refuses others
  // until go_on(). What came by them and was not delivered is not. On the thread that calls
  // listen() and stop().
  void cut();
  void go_on();

  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::size_t connections() const;
  [[nodiscard]] std::uint64_t refused() const;  // by a limit, since the start

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::rpc
