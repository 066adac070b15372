// The connecting end of the TCP transport.
//
// Threading: the returned function is called on `context`'s thread and calls back there.
#pragma once

#include <boost/asio/io_context.hpp>

#include "rpc/base/buffer.h"
#include "rpc/transport/channel.h"
#include "rpc/transport/tcp_options.h"

namespace weft::rpc {

// Connects to a numeric IPv4 or IPv6 address within connect_deadline. kUnreachable when refused,
// kTimedOut, kInvalid for an address that is none. context and pool outlive every channel made.
[[nodiscard]] Dial tcp_dialer(boost::asio::io_context& context, BufferPool& pool,
                              std::string address, std::uint16_t port, TcpLimits limits = {},
                              Milliseconds connect_deadline = Milliseconds{10'000});

}  // namespace weft::rpc
