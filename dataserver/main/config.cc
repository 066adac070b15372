#include "dataserver/main/config.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "dataserver/main/addresses.h"
#include "dataserver/segments/successor_graph.h"
#include "rpc/control/port.h"
#include "rpc/session/server_options.h"

namespace weft::ds {

namespace {

using Field = TomlField;
using Kind = TomlField::Kind;
using Value = TomlField::Value;

Result<> set_load_counters(const Value& value, std::string& counters) {
  if (value.text != "machine" && value.text != "process" && !value.text.starts_with('/')) {
    return fail(Errc::kInvalid, "must be \"machine\", \"process\" or the folder of a cgroup");
  }
  counters = value.text;
  return {};
}

Result<> set_mds(const Value& value, std::vector<HostPort>& mds) {
  for (const std::string& text : value.list) {
    auto address = parse_host_port(text, rpc::control::kControlPort);
    if (!address) return pass(address);
    mds.push_back(std::move(*address));
  }
  return {};
}

Result<> set_parity(const Value& value, std::vector<TargetAddress>& parity) {
  for (const std::string& text : value.list) {
    auto address = parse_target_address(text);
    if (!address) return pass(address);
    if (std::ranges::find(parity, *address) != parity.end()) {
      return fail(Errc::kInvalid, fmt::format("names '{}' twice", text));
    }
    parity.push_back(std::move(*address));
  }
  return {};
}

Result<> check_parity(const DsConfig& config) {
  if (config.parity.empty()) return {};
  if (config.target)
    return fail(Errc::kInvalid, "store.target and store.parity exclude each other");
  if (config.parity.size() < kMinMembers || config.parity.size() > kMaxMembers) {
    return fail(Errc::kInvalid,
                fmt::format("store.parity needs {} to {} targets", kMinMembers, kMaxMembers));
  }
  if ((config.parity_chunk & (config.parity_chunk - 1)) != 0) {
    return fail(Errc::kInvalid, "store.parity_chunk must be a power of two");
  }
  return {};
}

std::vector<Field> server_fields(DsConfig& config, ReadAddress read) {
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  return {
      transports_field("server.listen", config.listen, config.listen_rdma, read),
      transports_field("server.advertise", config.advertise, config.advertise_rdma, read),
      text_field("server.name", config.name),
      text_field("server.failure_domain", config.failure_domain),
      number_field("server.threads", config.threads, 0, 256),
      flag_field("server.pin_threads", config.pin_threads),
      number_field("server.memory_limit", config.memory_limit_bytes, 16 * kMiB,
                   std::int64_t{1} << 44, Kind::kBytes),
      number_field("server.max_connections", config.max_connections, 0, 1'000'000),
      number_field("server.max_connections_per_peer", config.max_connections_per_peer, 1,
                   1'000'000),
      number_field("server.max_clients", config.max_clients, 0, 1'000'000),
      number_field("server.max_clients_per_peer", config.max_clients_per_peer, 0, 1'000'000),
      number_field("server.max_slots", config.max_slots, 1, 1024),
      number_field("server.watchdog_seconds", config.watchdog, 0, 3600),
      number_field("server.silence_seconds", config.silence, 2, 3600),
      number_field("server.drain_seconds", config.drain, 0, 600),
      number_field("server.lease_wait_seconds", config.lease_wait, 0, 50),
      log_level_field("server.log_level", config.log_level),
      metrics_field("server.metrics", config.metrics, read),
      flag_field("server.shared_memory", config.shared_memory),
      text_field("server.socket", config.socket),
  };
}

std::vector<Field> network_fields(layout::ClientNetwork& network, ReadAddress read) {
  return {
      text_field("network.name", network.name),
      device_addresses_field("network.addresses", network.addresses, read),
      ranges_field("network.clients", network.clients),
  };
}

}  // namespace

Result<HostPort> parse_host_port(std::string_view text, std::uint16_t port) {
  const std::size_t begin = text.starts_with('[') ? text.find(']') : 0;
  const std::size_t colon = begin == std::string_view::npos ? begin : text.find(':', begin);
  std::string_view host = text.substr(0, colon);
  bool good = !host.empty();
  if (good && colon != std::string_view::npos) {
    const std::string_view digits = text.substr(colon + 1);
    const char* last = digits.data() + digits.size();
    const auto [end, error] = std::from_chars(digits.data(), last, port);
    // An IPv6 address needs its brackets, or the port is part of it.
    good = error == std::errc{} && end == last && port != 0;
  }
  if (good && host.starts_with('[')) {
    good = host.size() > 2 && host.ends_with(']');
    if (good) host = host.substr(1, host.size() - 2);
  }
  if (!good) {
    return fail(Errc::kInvalid,
                fmt::format("'{}' is not host, host:port or, of IPv6, [address]:port", text));
  }
  return HostPort{std::string(host), port};
}

ClientLimits client_limits(const DsConfig& config) {
  constexpr std::size_t kLeastClients = 64;
  // Most is the kernel's, of sockets; answers that are not taken have 16 KiB (rpc/transport).
  constexpr std::size_t kMemoryOfStranger = std::size_t{128} << 10;
  const std::size_t of_client =
      config.max_slots * std::size_t{rpc::SessionServerOptions{}.max_cached_bytes};
  ClientLimits limits;
  limits.clients = config.max_clients;
  if (limits.clients == 0) {
    limits.clients = std::max(config.memory_limit_bytes / 4 / of_client, kLeastClients);
  }
  limits.clients_per_peer = config.max_clients_per_peer;
  if (limits.clients_per_peer == 0)
    limits.clients_per_peer = std::max<std::size_t>(limits.clients / 2, 1);
  limits.connections = config.max_connections == 0 ? limits.clients : config.max_connections;
  limits.strangers =
      std::clamp<std::size_t>(config.memory_limit_bytes / kMemoryOfStranger, 128, 2048);
  limits.strangers_per_peer = limits.strangers / 8;
  limits.reply_bytes = limits.clients * of_client;
  return limits;
}

namespace {

Field prefetch_field(std::string key, ReadsAhead& into) {
  static constexpr std::string_view kWords[] = {"auto", "on", "off"};
  return {std::move(key), Kind::kText,
          [&into](const Value& value) -> Result<> {
            const auto* const at = std::ranges::find(kWords, value.text);
            if (at == std::end(kWords)) {
              return fail(Errc::kInvalid, "must be \"auto\", \"on\" or \"off\"");
            }
            into = static_cast<ReadsAhead>(at - std::begin(kWords));
            return {};
          },
          [&into] { return std::string(kWords[static_cast<std::size_t>(into)]); }};
}

void add_segment_fields(std::vector<Field>& fields, SegmentOptions& segments) {
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  constexpr std::int64_t kMost = std::int64_t{64} << 30;  // the index is written as a whole
  constexpr std::int64_t kLeast = kStripsInSegment * kStrip;
  fields.push_back(size_or_none_field("segments.size", segments.size, kLeast, kMost));
  fields.push_back(
      number_field("segments.cache", segments.cache_bytes, 16 * kMiB, kMost, Kind::kBytes));
  fields.push_back(number_field("segments.best", segments.best, 1, SuccessorOptions::kMostRecent));
  fields.push_back(
      number_field("segments.recent", segments.recent, 1, SuccessorOptions::kMostRecent));
  fields.push_back(number_field("segments.history", segments.history, 1024, 16'777'216));
  fields.push_back(number_field("segments.idle_seconds", segments.idle, 1, 3600));
}

Result<> check_segments(const DsConfig& config) {
  const SegmentOptions& segments = config.segments;
  if (!segments.on()) return {};
  if (config.target || !config.parity.empty()) {
    return fail(Errc::kInvalid,
                "segments.size is for objects in the folder of store.path: not with "
                "store.target or store.parity");
  }
  if (segments.best > segments.recent) {
    return fail(Errc::kInvalid, "segments.best must be at most segments.recent");
  }
  return {};
}

}  // namespace

std::vector<TomlField> config_fields(DsConfig& config, ReadAddress read) {
  std::vector<Field> fields = server_fields(config, read);
  fields.push_back(networks_field(config.networks, [read](layout::ClientNetwork& network) {
    return network_fields(network, read);
  }));
  fields.push_back(text_field("store.path", config.store.path));
  fields.push_back(flag_field("store.create", config.store.create));
  fields.push_back(mode_field("store.mode", config.store.mode));
  fields.push_back(
      number_field("store.max_open_files", config.store.max_open_files, 64, 1'000'000));
  fields.push_back(number_field("store.worker_threads", config.store.worker_threads, 1, 64));
  fields.push_back(flag_field("store.checksums", config.checksums));
  fields.push_back(prefetch_field("store.prefetch", config.prefetch));
  add_emulated_disk_fields(fields, config.emulated_disk);
  fields.push_back({"store.target", Kind::kText,
                    [&config](const Value& value) -> Result<> {
                      auto address = parse_target_address(value.text);
                      if (!address) return pass(address);
                      config.target = std::move(*address);
                      return {};
                    },
                    [&config] { return config.target ? to_string(*config.target) : ""; }});
  fields.push_back(number_field("store.disk_patience_seconds", config.disk_patience, 2, 3600));
  fields.push_back(seconds_field("store.target_patience_seconds", config.target_patience, 1, 50));
  fields.push_back(flag_field("store.target_descriptors", config.target_descriptors));
  fields.push_back({"store.parity", Kind::kTextList,
                    [&config](const Value& value) { return set_parity(value, config.parity); },
                    [&config] { return list_text(config.parity); }});
  fields.push_back(
      number_field("store.parity_chunk", config.parity_chunk, kMinChunk, kMaxChunk, Kind::kBytes));
  fields.push_back(seconds_field("store.parity_patience_seconds", config.parity_patience, 1, 50));
  fields.push_back(number_field("store.parity_rebuild_rate", config.parity_rebuild_rate, 0,
                                std::int64_t{1} << 40, Kind::kBytes));
  fields.push_back(
      number_field("store.parity_scrub_every_seconds", config.parity_scrub_every, 0, 366 * 86400));
  fields.push_back(number_field("store.parity_scrub_rate", config.parity_scrub_rate, 0,
                                std::int64_t{1} << 40, Kind::kBytes));
  fields.push_back(cache_size_field("cache.size", config.cache_bytes));
  add_segment_fields(fields, config.segments);
  fields.push_back(
      {"load.counters", Kind::kText,
       [&config](const Value& value) { return set_load_counters(value, config.load.counters); },
       [&config] { return config.load.counters; }});
  constexpr std::int64_t kMaxRate = std::int64_t{1} << 50;
  fields.push_back(number_field("load.disk_max", config.load.disk_max, 0, kMaxRate, Kind::kBytes));
  fields.push_back(number_field("load.net_max", config.load.net_max, 0, kMaxRate, Kind::kBytes));
  fields.push_back(seconds_field("mirror.timeout_seconds", config.mirror.timeout, 1, 60));
  fields.push_back(number_field("mirror.window", config.mirror.window_bytes, 0,
                                std::int64_t{1} << 40, Kind::kBytes));
  fields.push_back(seconds_field("mirror.window_seconds", config.mirror.window_age, 0, 60));
  fields.push_back({"cluster.mds", Kind::kTextList,
                    [&config](const Value& value) { return set_mds(value, config.mds); },
                    [&config] { return list_text(config.mds); }});
  fields.push_back(text_field("cluster.key_file", config.key_file));
  return fields;
}

Result<DsConfig> parse_config(std::string_view text, const std::string& name, ReadAddress address) {
  DsConfig config;
  if (auto read = read_toml(text, name, config_fields(config, address)); !read) return pass(read);
  return config;
}

Result<DsConfig> load_config(const std::string& path, ReadAddress address) {
  auto text = read_config_text(path);
  if (!text) return pass(text);
  return parse_config(*text, path, address);
}

std::string to_string(const HostPort& address) {
  const bool v6 = address.host.contains(':');
  return fmt::format("{}{}{}:{}", v6 ? "[" : "", address.host, v6 ? "]" : "", address.port);
}

std::vector<ConfigValue> config_values(const DsConfig& config) {
  DsConfig now = config;
  DsConfig fresh;
  const std::vector<TomlField> values = config_fields(now);
  const std::vector<TomlField> defaults = config_fields(fresh);
  std::vector<ConfigValue> shown;
  for (std::size_t i = 0; i < values.size(); ++i) {
    shown.push_back({values[i].key, values[i].show(), defaults[i].show()});
  }
  return shown;
}

LocalEndpoint local_endpoint(const DsConfig& config) {
  if (!config.shared_memory) return {};
  std::string socket = config.socket;
  if (socket.empty()) {
    std::error_code failed;
    socket = (std::filesystem::absolute(config.store.path, failed) / "nfs.sock").string();
    if (failed || socket.size() > kMaxSocketPath) return {};
  }
  return {.machine = this_machine(), .user = ::geteuid(), .socket = std::move(socket)};
}

LoadOptions load_options(const DsConfig& config) {
  LoadOptions options = config.load;
  const bool elsewhere = config.target || !config.parity.empty();
  options.here = !elsewhere;
  options.page_cache = elsewhere || config.store.mode == IoMode::kBuffered;
  return options;
}

bool reads_ahead(const DsConfig& config, bool turns) {
  const bool elsewhere = config.target || !config.parity.empty();
  // Around the page cache, and without a cache of its own, it would be read twice. Segments keep
  // what they are made of, and nothing else.
  const bool direct = !elsewhere && config.store.mode == IoMode::kDirect;
  const bool emulated = config.emulated_disk.on();
  const bool forgets = (direct && !emulated) || (emulated && config.emulated_disk.memory == 0);
  if (config.prefetch == ReadsAhead::kOff) return false;
  if (forgets && config.cache_bytes == 0) return false;
  if (config.prefetch == ReadsAhead::kOn) return true;
  return !elsewhere && (turns || emulated);
}

Result<> check_config(const DsConfig& config, bool standalone) {
  const auto missing = [](std::string_view key) {
    return fail(Errc::kInvalid, fmt::format("{} is not set", key));
  };
  if (auto rdma = check_listen(config); !rdma) return rdma;
  if (config.listen.empty()) return missing("server.listen");
  if (config.store.path.empty()) return missing("store.path");
  if (!config.store.path.starts_with('/')) {
    return fail(Errc::kInvalid, "store.path must be an absolute path");
  }
  if (config.key_file.empty()) return missing("cluster.key_file");
  if (auto parity = check_parity(config); !parity) return parity;
  if (config.emulated_disk.on() && (config.target || !config.parity.empty())) {
    return fail(Errc::kInvalid, "store.emulated_disk is the targets' where objects are at targets");
  }
  if (config.checksums && (config.target || !config.parity.empty())) {
    return fail(Errc::kInvalid,
                "store.checksums is for objects in the folder of store.path: with store.target set "
                "it at the target, and store.parity has checksums of its own");
  }
  if (auto segments = check_segments(config); !segments) return segments;
  const bool kernel_caches = !config.target && config.parity.empty() &&
                             config.store.mode == IoMode::kBuffered && !config.emulated_disk.on();
  if (config.cache_bytes > 0 && kernel_caches) {
    return fail(Errc::kInvalid,
                "cache.size needs store.target, store.parity or store.mode = \"direct\": what is "
                "read in buffered mode is in the kernel's page cache already");
  }
  if (!config.socket.empty() &&
      (config.socket.front() != '/' || config.socket.size() > kMaxSocketPath)) {
    return fail(Errc::kInvalid, fmt::format("server.socket must be an absolute path of at most {} "
                                            "bytes",
                                            kMaxSocketPath));
  }
  if (standalone) return {};
  if (config.mds.empty()) return missing("cluster.mds");
  return check_told(config);
}

}  // namespace weft::ds
