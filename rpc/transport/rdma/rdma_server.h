// The accepting end of RPC over RDMA: listens at addresses of RDMA devices (InfiniBand, RoCE,
// Soft-RoCE), as far as this machine has them. Devices may come and go: look() finds
// what does not listen yet.
//
// Requests for connections are heard on the first I/O thread; the connections go to the I/O threads
// in turn, and live on theirs. They have places as those of TCP have (rpc/transport/admission.h).
// A device that fails or is removed ends its connections, and where it listens, and nothing else.
//
// Threading: construct, bind(), listen(), look(), stop(), cut(), go_on() and destroy from one
// thread; `accept` is called on the new channel's thread. Ownership: threads and pool outlive the
// server; no connection outlives it. Everything is asked of the kernel, and nothing here waits for
// a peer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rpc/base/buffer.h"
#include "rpc/transport/admission.h"
#include "rpc/transport/io_threads.h"
#include "rpc/transport/rdma/endpoint.h"
#include "rpc/transport/rdma/server_channel.h"

namespace weft::rpc::rdma {

struct ServerOptions {
  std::vector<Endpoint> addresses;
  AdmissionLimits admission;
  Limits limits;  // whose standing is that of admission
};

class Server {
 public:
  using Accept = std::function<void(std::shared_ptr<Channel>)>;

  // Precondition: the pool has a pinned arena (Arena::pin()).
  Server(IoThreads& threads, BufferPool& pool, ServerOptions options, Accept accept);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Takes the addresses; whoever connects there is refused until listen(). For want of a device,
  // say, that may be some or none: the log says why, once for a reason.
  void bind();
  // Listens at the addresses where it does not, and takes those that it has not yet. An error says
  // why that is not all of them. kNotSupported: the machine has no RDMA device.
  [[nodiscard]] Result<> listen();
  // listen(), for whoever calls this each 200 ms or so from when connections may come: at once, and
  // then each 5 s while there is something left. The log says why, as for bind(). As often it looks
  // whether devices have a link, and says when that changed.
  void look();
  // Stops accepting; connections that exist are not touched.
  void stop();
  // Ends the connections there are, those of an I/O thread that hangs as well, and listens nowhere
  // until go_on() and look(). What came by them and was not delivered is not.
  void cut();
  void go_on();

  // Of each address: it is bound, and its device has a link. Connections that are there stay.
  [[nodiscard]] std::vector<bool> reachable() const;
  [[nodiscard]] std::size_t listening() const;  // addresses
  [[nodiscard]] std::size_t connections() const;
  [[nodiscard]] std::uint64_t refused() const;  // by a limit, since the start
  [[nodiscard]] const Counts& counts() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::rpc::rdma
