// What weft-ds is told: its configuration file and command line.
//
// Threading: plain values and pure functions, but for load_config(), which reads a file.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dataserver/load/sampler.h"
#include "dataserver/mirror/mirror_options.h"
#include "dataserver/parity/geometry.h"
#include "dataserver/process/config_fields.h"
#include "dataserver/process/toml_fields.h"
#include "dataserver/segments/segment_table.h"
#include "dataserver/store/emulated_disk.h"
#include "dataserver/store/file_store.h"
#include "dataserver/targets/target_link.h"
#include "layout/client_network.h"
#include "layout/net_address.h"
#include "rpc/base/machine.h"

namespace weft::ds {

struct HostPort {
  std::string host;  // a name or a numeric address, without brackets
  std::uint16_t port = 0;
  friend bool operator==(const HostPort&, const HostPort&) = default;
};

// Whether what clients are expected to read is brought into memory before they come.
enum class ReadsAhead : std::uint8_t {
  kAuto,  // where the objects' disk turns
  kOn,
  kOff,
};

struct DsConfig {
  // [server]
  std::vector<layout::NetAddress> listen;
  std::vector<layout::NetAddress> listen_rdma;     // of it, by RDMA
  std::vector<layout::NetAddress> advertise;       // what clients are told; `listen` when not given
  std::vector<layout::NetAddress> advertise_rdma;  // of it, by RDMA
  std::vector<layout::ClientNetwork> networks;     // [[network]]: name, addresses, clients
  std::string name;                                // the host's name when not given
  std::string failure_domain;
  unsigned threads = 0;  // 0: one for each CPU this process may use
  bool pin_threads = true;
  std::size_t memory_limit_bytes = std::size_t{512} << 20;  // of data in transit
  std::size_t max_connections = 0;  // of clients; 0: as many as there may be clients
  std::size_t max_connections_per_peer = 256;
  std::size_t max_clients = 0;           // 0: as many as a quarter of memory_limit is enough for
  std::size_t max_clients_per_peer = 0;  // 0: half of that
  std::uint32_t max_slots = 64;          // of a session: requests at a time
  std::chrono::seconds watchdog{30};     // a thread that hangs longer ends the process; 0: never
  std::chrono::seconds silence{5};       // a supervised server is killed after
  std::chrono::seconds drain{10};        // what a clean shutdown waits for requests
  std::chrono::seconds lease_wait{10};   // for which requests wait while there is no lease
  std::string log_level = "info";
  std::optional<layout::NetAddress> metrics;  // Prometheus text over HTTP
  bool shared_memory = true;                  // for a metadata server on this machine
  std::string socket;  // where it comes; in the store's folder when not given

  // [store]: path, create, mode, max_open_files, worker_threads
  FileStoreOptions store;
  bool checksums = false;  // of every block, kept beside the objects
  ReadsAhead prefetch = ReadsAhead::kAuto;
  std::chrono::seconds disk_patience{10};  // disk_patience_seconds: then it hangs
  EmulatedDiskOptions emulated_disk;       // emulated_disk.*: of the folder's objects
  // target, target_*: objects are at a target; the folder keeps identity and fences
  std::optional<TargetAddress> target;
  std::chrono::milliseconds target_patience{30'000};
  bool target_descriptors = true;  // pages are accessed by descriptors that it hands over
  // parity, parity_*: they are at a parity group of targets
  std::vector<TargetAddress> parity;
  std::chrono::milliseconds parity_patience{5'000};
  std::uint32_t parity_chunk = ParityGeometry{}.chunk;
  std::uint64_t parity_rebuild_rate = 0;               // bytes a second at the member; 0: no limit
  std::chrono::seconds parity_scrub_every{7 * 86400};  // 0: never
  std::uint64_t parity_scrub_rate = std::uint64_t{32} << 20;  // at each member; 0: no limit

  // [cache]: size
  std::size_t cache_bytes = 0;  // 0: none

  // [segments]: size, cache, best, recent, history, idle_seconds
  SegmentOptions segments;

  // [load]: counters, disk_max, net_max
  LoadOptions load;

  // [mirror]: timeout_seconds, window, window_seconds
  MirrorOptions mirror;

  // [cluster]
  std::vector<HostPort> mds;  // control addresses, tried in turn
  std::string key_file;
};

// "mds1:9630", "192.0.2.1:9630", "[2001:db8::1]:9630"; with `port` where the text has none.
[[nodiscard]] Result<HostPort> parse_host_port(std::string_view text, std::uint16_t port);

[[nodiscard]] std::string to_string(const HostPort& address);

// How many of what clients may have, with what follows from memory_limit in the place of zeros.
struct ClientLimits {
  std::size_t clients = 0;
  std::size_t clients_per_peer = 0;
  std::size_t connections = 0;
  std::size_t strangers = 0;  // connections that have shown nothing yet
  std::size_t strangers_per_peer = 0;
  std::size_t reply_bytes = 0;  // promised for replies kept for retransmissions
};
[[nodiscard]] ClientLimits client_limits(const DsConfig& config);

// The keys there are, each of which sets its part of `config`, which must outlive the list.
[[nodiscard]] std::vector<TomlField> config_fields(DsConfig& config,
                                                   ReadAddress read = &numeric_address);
// Of every key what holds, and what would if nothing were said. Of files with secrets these are
// paths, not what is in them.
struct ConfigValue {
  std::string key;
  std::string value;
  std::string by_default;
};
[[nodiscard]] std::vector<ConfigValue> config_values(const DsConfig& config);
// Text of a configuration file; `name` is for messages. kInvalid, naming file, line and key.
[[nodiscard]] Result<DsConfig> parse_config(std::string_view text, const std::string& name,
                                            ReadAddress address = &numeric_address);
[[nodiscard]] Result<DsConfig> load_config(const std::string& path,
                                           ReadAddress address = &numeric_address);
// Where a metadata server of this machine finds shared memory: nowhere when that is switched off,
// or the store's folder has too long a path.
[[nodiscard]] LocalEndpoint local_endpoint(const DsConfig& config);
// [load], and what follows from [store]: whether the kernel may keep objects in its page cache,
// here or at a target.
[[nodiscard]] LoadOptions load_options(const DsConfig& config);
// What store.prefetch comes to; `turns`: the disk of the store's folder does.
[[nodiscard]] bool reads_ahead(const DsConfig& config, bool turns);
// What no key alone can show: something required is missing, or two do not go together.
[[nodiscard]] Result<> check_config(const DsConfig& config, bool standalone);

}  // namespace weft::ds
