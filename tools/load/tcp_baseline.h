// What loopback TCP itself moves: a sender and a receiver of plain blocks, beside which the data
// path is measured.
//
// Threading: blocking calls, one connection, one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "rpc/base/error.h"

namespace weft::load {

struct TcpBaseline {
  std::uint64_t bytes = 0;
  double seconds = 0;
};

// Listens on 127.0.0.1:port, sends blocks of `block` bytes to whoever connects until it leaves,
// round and round in `memory` bytes; serves `connections` of them one after the other. Prints
// "ready" on standard output first.
[[nodiscard]] Result<> tcp_serve(std::uint16_t port, std::size_t block, std::size_t memory,
                                 unsigned connections);
// Reads from it for `duration`, in reads of up to `block` bytes.
[[nodiscard]] Result<TcpBaseline> tcp_read(std::uint16_t port, std::size_t block,
                                           std::chrono::milliseconds duration);

}  // namespace weft::load
