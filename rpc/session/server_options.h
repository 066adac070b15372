// What a session server says of itself, and its limits. Every default bounds something.
//
// Threading: values.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "rpc/nfs4/session_ops.h"

namespace weft::rpc {

struct SessionServerOptions {
  // so_major_id: must differ between any two server processes, or a client trunks them together
  // and misroutes I/O; must stay the same over restarts of one.
  std::string server_major_id;
  std::string server_scope = "weft";
  std::uint32_t role = nfs4::EXCHGID4_FLAG_USE_PNFS_DS;
  std::chrono::seconds lease{90};  // at least the metadata server's

  // The fingerprint of the cluster key by which who asks shows that it is a server of the system
  // (cluster_session.h); 0: it is none. No function: nobody is. What servers have does not count
  // against what clients may have, and has bounds of the same size.
  std::function<std::uint64_t(const nfs4::ExchangeIdArgs&)> server_key = {};

  std::size_t max_clients = 8192;
  std::size_t max_clients_per_host =
      4096;  // by IP address; half of all bytes for replies are theirs
  std::size_t max_sessions_per_client = 64;
  std::uint32_t max_slots = 64;       // per session; clients ask for 64
  std::uint32_t max_operations = 16;  // per compound, SEQUENCE included
  std::uint32_t max_request_bytes = (1U << 20) + 4096;
  std::uint32_t max_response_bytes = (1U << 20) + 4096;
  // Per slot: replies kept for a retransmission. What a data server answers is half as long; memory
  // for it is taken when there is something to keep.
  std::uint32_t max_cached_bytes = 256;
  std::size_t max_cached_total_bytes = std::size_t{128} << 20;  // all slots, promised at creation
  std::size_t max_running_per_connection = 128;  // compounds; beyond it reading stops
};

}  // namespace weft::rpc
