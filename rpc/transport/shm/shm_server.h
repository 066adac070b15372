// The accepting end of the shared-memory transport: a Unix socket that processes of this machine
// connect to.
//
// Whoever connects is looked at first (SO_PEERCRED), has a deadline to introduce himself, and must
// bring memory that cannot shrink. Connections go to the I/O threads in turn. An arena that comes
// with several connections is mapped once.
//
// Threading: construct, listen() and stop() from one thread while the I/O threads run; `accept` is
// called on the new channel's thread.
#pragma once

#include <functional>
#include <memory>

#include "rpc/transport/channel.h"
#include "rpc/transport/io_threads.h"
#include "rpc/transport/shm/shm_options.h"

namespace weft::rpc {

class ShmServer {
 public:
  using Accept = std::function<void(std::shared_ptr<Channel>)>;

  // threads and pool must outlive the server and every channel of it. Records are received into
  // buffers of `pool`.
  ShmServer(IoThreads& threads, BufferPool& pool, ShmServerOptions options, Accept accept);
  ~ShmServer();
  ShmServer(const ShmServer&) = delete;
  ShmServer& operator=(const ShmServer&) = delete;

  // A socket that nobody listens on any more is replaced. kBusy when somebody does, kInvalid for a
  // path that is too long or of something else.
  [[nodiscard]] Result<> listen();
  // Stops accepting and removes the socket; connections that exist are not touched.
  void stop();

  [[nodiscard]] std::size_t connections() const;
  [[nodiscard]] std::uint64_t refused() const;  // since the start

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::rpc
