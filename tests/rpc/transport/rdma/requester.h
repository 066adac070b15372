// A client's end of RPC over RDMA over a FakeWire: a Channel for session clients in tests. It takes
// bulk data out of calls, exposes memory for that of answers, and puts answers together, as a Linux
// client does; and checks that the server keeps to the protocol.
//
// Threading: the wire's. Ownership: as FakeWire.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>

#include "rpc/transport/channel.h"
#include "tests/rpc/transport/rdma/fake_device.h"

namespace weft::rpc::rdma {

// Answers are received into buffers of `pool`.
[[nodiscard]] std::shared_ptr<Channel> request(boost::asio::io_context& context, BufferPool& pool,
                                               std::shared_ptr<FakeWire> wire);

}  // namespace weft::rpc::rdma
