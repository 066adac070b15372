// The options of a metadata server (fsal-weft(8) has them by the names that errors give them).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace weft::mds {

struct ServerOptions {
  std::string control_address;             // where data servers reach us: host:port
  std::string key_file;                    // the cluster key
  std::string admin_socket;                // Unix socket of the command line; "" for none
  std::string metrics_address;             // where Prometheus scrapes: host:port; "" for nowhere
  std::string status_address;              // of the page for a browser: host:port; "" for nowhere
  bool shared_root = false;                // of a new store: everybody makes names in it
  std::chrono::seconds recall_timeout{0};  // 0: one lease
  std::uint32_t kept_layouts = 0;          // that a client keeps of files it has closed, at most
  bool by_load = true;                     // data servers' loads count when they are chosen
  std::chrono::seconds data_server_lease{60};        // for which one serves without being in touch
  std::size_t proxy_memory = std::size_t{64} << 20;  // bytes of data in flight through this server
  std::chrono::seconds proxy_timeout{20};            // of one exchange with a data server
  bool shared_memory = false;     // with data servers on this machine, for what goes through us
  bool rdma = false;              // to other data servers that have it, for the same
  std::uint64_t resync_rate = 0;  // bytes a second that a data server mends copies with; 0: any
  std::chrono::seconds replace_after{0};  // gone, until its copies are made elsewhere; 0: never
  std::chrono::seconds scrub_every{0};    // 0: never

  // No options of an export; tests wait less.
  std::chrono::milliseconds heartbeat{1000};
  std::chrono::milliseconds journal_linger{5000};  // of a writer's record that nobody needs
  std::chrono::milliseconds commit_after{10'000};  // of what nobody commits
  std::chrono::milliseconds owing_for{1000};       // of a file whose leaders are ahead
};

}  // namespace weft::mds
