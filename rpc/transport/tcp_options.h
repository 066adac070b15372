// The limits and deadlines of TCP channels, servers and dialers. Every default bounds something.
//
// Threading: values.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "rpc/onc/record_reader.h"

namespace weft::rpc {

using Milliseconds = std::chrono::milliseconds;

struct TcpLimits {
  // A record beyond this ends the connection. 1 MiB of data and room for headers by default.
  std::size_t max_record_bytes = (std::size_t{1} << 20) + (std::size_t{8} << 10);
  std::uint32_t max_fragments = 64;      // of one record
  Milliseconds record_deadline{15'000};  // from a record's first byte to its last
  Milliseconds idle_deadline{600'000};   // without any byte either way; 0: none
  Milliseconds send_deadline{60'000};    // the peer takes nothing while replies are queued
  Milliseconds memory_deadline{10'000};  // waiting for the buffer pool
  Milliseconds drain_deadline{10'000};   // a draining close
  std::size_t max_queued_bytes = std::size_t{8} << 20;  // of replies; beyond it reading stops
  LocatePayload locate_payload = nullptr;               // to place bulk data on a page boundary
  // Bulk data of at least so many bytes stays in the kernel (ChannelUser::on_piped_record); 0:
  // none.
  std::size_t pipe_from = 0;
  // Whether it does now: asked for each such record, on the connection's thread. None: always.
  std::function<bool()> pipes = {};
};

struct TcpServerOptions {
  std::string address = "0.0.0.0";  // a numeric IPv4 or IPv6 address
  std::uint16_t port = 0;           // 0: any free one
  std::size_t max_connections = 4096;
  std::size_t max_connections_per_peer = 256;  // by IP address
  TcpLimits limits;
};

}  // namespace weft::rpc
