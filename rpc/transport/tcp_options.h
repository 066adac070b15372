// The limits and deadlines of TCP channels, servers and dialers. Every default bounds something.
//
// Threading: values.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "rpc/base/standing.h"
#include "rpc/onc/record_reader.h"
#include "rpc/transport/deadlines.h"

namespace weft::rpc {

using Milliseconds = std::chrono::milliseconds;

struct TcpLimits {
  // A record beyond this ends the connection. 1 MiB of data and room for headers by default.
  std::size_t max_record_bytes = (std::size_t{1} << 20) + (std::size_t{8} << 10);
  std::uint32_t max_fragments = 64;             // of one record
  Milliseconds record_deadline{15'000};         // from a record's first byte to its last
  Milliseconds idle_deadline{600'000};          // without any byte either way; 0: none
  Milliseconds send_deadline{60'000};           // the peer takes nothing while replies are queued
  Milliseconds memory_deadline{10'000};         // waiting for the buffer pool
  Milliseconds drain_deadline{kDrainDeadline};  // a draining close
  // Of replies, on the wire; beyond it reading stops. So it does when they take more than 16 KiB of
  // memory, beside buffers of the pool: of a stranger at once, of a client when the pool, where it
  // counts from then on, has no room for them, or at 1 MiB.
  std::size_t max_queued_bytes = std::size_t{8} << 20;
  LocatePayload locate_payload = nullptr;  // to place bulk data on a page boundary
  // Bulk data of at least so many bytes stays in the kernel (ReceivedRecord::apart); 0: none.
  std::size_t pipe_from = 0;
  // Whether it does now: asked for each such record, with its first bytes, on the connection's
  // thread. None: always.
  std::function<bool(std::span<const std::byte> head)> pipes = {};

  // What is known of who connects. A stranger is to show more in time, and sends small records
  // until then (rpc/onc/record_reader.h); with memory that is short, a client that is slower than
  // least_rate for slow_deadline, at what it has begun to send or at taking what it is sent, is
  // given up, and so is one that takes what is queued so slowly that the memory it holds would last
  // longer than record_deadline. The time is longer than TCP pauses over a far link that
  // loses a packet and its repetition, and shorter than others wait for memory (memory_deadline).
  // What it holds meanwhile is bounded: a stranger by max_stranger_bytes, a host's clients by
  // HostShare.
  Standing standing = Standing::kServer;
  std::size_t max_stranger_bytes = std::size_t{4} << 10;
  LookAtHead look = {};
  Milliseconds stranger_deadline{15'000};
  std::size_t least_rate = std::size_t{64} << 10;  // bytes a second
  Milliseconds slow_deadline{5'000};
};

// Who connects is what limits.standing says, and counts as such until it has shown more. One
// stranger too many takes the place of the one that has been one for longest: who means it is none
// for long.
struct TcpServerOptions {
  std::string address = "0.0.0.0";  // a numeric IPv4 or IPv6 address
  std::uint16_t port = 0;           // 0: any free one
  // Of clients.
  std::size_t max_connections = 4096;
  std::size_t max_connections_per_peer = 256;  // by IP address
  std::size_t max_strangers = 2048;
  std::size_t max_strangers_per_peer = 256;
  std::size_t max_servers = 16'384;
  TcpLimits limits{.standing = Standing::kClient};
};

}  // namespace weft::rpc
