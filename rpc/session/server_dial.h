// How a server of a system reaches another one by the network: by RDMA, where both have it, and by
// TCP else (preferred_dial.h).
//
// Threading and ownership: as preferred_dial.h; context and pool outlive every channel made.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "layout/net_address.h"
#include "rpc/base/buffer.h"
#include "rpc/transport/channel.h"

namespace weft::rpc {

// A Dial by RDMA to an address, which gives up after so long; called on the thread of `context`.
using DialRdma = std::function<Dial(boost::asio::io_context& context, const std::string& ip,
                                    std::uint16_t port, std::chrono::milliseconds within)>;

struct ServerDialOptions {
  std::vector<layout::NetAddress> addresses;  // at least one
  std::vector<layout::NetAddress> rdma;       // may be none
  // For a connection to each address. By RDMA all of them are tried in a quarter of it, and in a
  // second at most, so that there is time for TCP after them.
  std::chrono::milliseconds within{4000};
  DialRdma dial_rdma;  // none: TCP is taken
  // As PreferredDialOptions'; only if RDMA may be taken.
  std::function<void(const Channel&)> on_connected;
  std::function<void()> on_better;
};

[[nodiscard]] Dial dial_server(boost::asio::io_context& context, BufferPool& pool,
                               ServerDialOptions options);

}  // namespace weft::rpc
