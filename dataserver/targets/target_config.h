// What weft-target is told: its configuration file.
//
// Threading: plain values and pure functions, but for load_target_config(), which reads a file.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dataserver/load/sampler.h"
#include "dataserver/process/config_fields.h"
#include "dataserver/process/toml_fields.h"
#include "dataserver/store/emulated_disk.h"
#include "dataserver/store/file_store.h"
#include "layout/net_address.h"
#include "rpc/control/options.h"

namespace weft::ds {

struct TargetConfig {
  // [target]
  std::string socket;                           // for data servers of this machine
  std::uint32_t socket_mode = 0660;             // its permissions
  std::vector<std::uint32_t> users;             // who may use it beside root and our own user
  std::vector<layout::NetAddress> listen;       // for data servers of other machines
  std::vector<layout::NetAddress> listen_rdma;  // likewise; data servers find TCP at the same port
  unsigned threads = 0;                         // 0: one for each CPU this process may use
  bool pin_threads = true;
  std::size_t memory_limit_bytes = std::size_t{512} << 20;  // of data in transit
  std::size_t max_connections = 0;  // of data servers; 0: enough for max_spaces, an I/O thread each
  std::size_t max_spaces = 64;      // data servers
  std::chrono::seconds watchdog{30};  // a thread that hangs longer ends the process; 0: never
  std::chrono::seconds silence{5};    // before a supervisor kills it
  std::chrono::seconds drain{10};     // what a clean shutdown waits for requests
  std::string log_level = "info";
  std::optional<layout::NetAddress> metrics;  // Prometheus text over HTTP

  // [store]: path, create, mode, max_open_files, worker_threads, checksums, disk_patience_seconds,
  // emulated_disk.*
  FileStoreOptions store;
  std::chrono::seconds disk_patience{10};  // then its disk hangs
  bool checksums = false;                  // of every block, kept beside the objects
  EmulatedDiskOptions emulated_disk;       // emulated_disk.*: one for all spaces

  // [cache]: size
  std::size_t cache_bytes = 0;  // 0: none

  // [cluster]
  std::string key_file;
};

// How many connections data servers may have.
[[nodiscard]] std::size_t max_connections(const TargetConfig& config);

// The keys there are, each of which sets its part of `config`, which must outlive the list.
[[nodiscard]] std::vector<TomlField> target_config_fields(TargetConfig& config,
                                                          ReadAddress read = &numeric_address);
[[nodiscard]] Result<TargetConfig> parse_target_config(std::string_view text,
                                                       const std::string& name,
                                                       ReadAddress address = &numeric_address);
[[nodiscard]] Result<TargetConfig> load_target_config(const std::string& path, ReadAddress address);
// The options that hold, by their keys.
[[nodiscard]] rpc::control::Options target_options(const TargetConfig& config);
// What no key alone can show.
[[nodiscard]] Result<> check_target_config(const TargetConfig& config);

}  // namespace weft::ds
