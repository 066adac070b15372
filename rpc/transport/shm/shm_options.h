// The limits and deadlines of shared-memory channels. Every default bounds something.
//
// Threading: values.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "rpc/transport/deadlines.h"
#include "rpc/transport/tcp_options.h"

namespace weft::rpc {

struct ShmLimits {
  // Polls so long at most before it sleeps, where that pays (patience.h); 0: never.
  std::chrono::microseconds max_poll{20};
  std::size_t max_queued_bytes = std::size_t{1} << 20;  // for a full ring; then reading stops
  Milliseconds send_deadline{60'000};           // the peer takes nothing while records are queued
  Milliseconds memory_deadline{10'000};         // waiting for the buffer pool
  Milliseconds drain_deadline{kDrainDeadline};  // a draining close
  Milliseconds connect_deadline{5'000};         // from connecting to the first record
};

struct ShmDialerOptions {
  std::string path;                                    // of the Unix socket
  std::size_t ring_capacity = std::size_t{256} << 10;  // each way; a power of two
  std::vector<uid_t> users;  // who may listen there, besides root and the user this process runs as
  ShmLimits limits;
};

struct ShmServerOptions {
  std::string path;
  mode_t mode = 0660;  // of the socket
  // Who may connect: these users, root, and the user this process runs as.
  std::vector<uid_t> users;
  std::size_t max_connections = 256;
  std::size_t max_arena_bytes = std::size_t{64} << 30;
  std::size_t max_ring_capacity = std::size_t{4} << 20;
  ShmLimits limits;
};

}  // namespace weft::rpc
