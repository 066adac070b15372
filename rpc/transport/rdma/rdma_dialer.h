// The connecting end of RPC over RDMA. Each connection has memory of its own that it exposes to its
// peer (client_channel.h), registered when it is made.
//
// Threading: construct and destroy from one thread, none of those of `threads`. to() from any; what
// it returns is called on `context`'s thread, one of `threads`, and calls back there.
//
// Ownership: threads outlive the dialer; no connection outlives it. Its connections end with it,
// those of dials that are under way as well.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "rpc/base/buffer.h"
#include "rpc/transport/channel.h"
#include "rpc/transport/io_threads.h"
#include "rpc/transport/rdma/client_channel.h"
#include "rpc/transport/rdma/endpoint.h"

namespace weft::rpc::rdma {

class Dialer {
 public:
  explicit Dialer(IoThreads& threads);
  ~Dialer();
  Dialer(const Dialer&) = delete;
  Dialer& operator=(const Dialer&) = delete;

  // Connects within connect_deadline. kNotSupported at once where the machine has no RDMA device;
  // kUnreachable: no device leads there, refused, or nobody answers; kTimedOut; kInvalid: no
  // address. kBusy and the like: no memory to expose. pool outlives every channel made.
  [[nodiscard]] Dial to(boost::asio::io_context& context, BufferPool& pool, Endpoint endpoint,
                        CallLimits limits = {},
                        std::chrono::milliseconds connect_deadline = std::chrono::seconds(2));
  // to(), for whoever knows nothing of RDMA: a DialRdma (rpc/session/server_dial.h). The dialer
  // outlives it.
  [[nodiscard]] std::function<Dial(boost::asio::io_context&, const std::string& ip,
                                   std::uint16_t port, std::chrono::milliseconds within)>
  by(BufferPool& pool);

  // Of all connections that were made here.
  [[nodiscard]] const Counts& counts() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace weft::rpc::rdma
