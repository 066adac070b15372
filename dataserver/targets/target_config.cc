#include "dataserver/targets/target_config.h"

#include <pwd.h>

#include <algorithm>
#include <charconv>

#include "layout/wildcard.h"
#include "rpc/base/machine.h"

namespace weft::ds {

namespace {

using Kind = TomlField::Kind;
using Value = TomlField::Value;

// "0660": as chmod(1) takes it.
TomlField permissions_field(std::string key, std::uint32_t& into) {
  return {std::move(key), Kind::kText,
          [&into](const Value& value) -> Result<> {
            const char* last = value.text.data() + value.text.size();
            std::uint32_t mode = 0;
            const auto [end, error] = std::from_chars(value.text.data(), last, mode, 8);
            if (error != std::errc{} || end != last || mode > 0777) {
              return fail(Errc::kInvalid, "must be permissions in octal, like \"0660\"");
            }
            into = mode;
            return {};
          },
          [&into] { return fmt::format("{:04o}", into); }};
}

// Names or numbers.
TomlField users_field(std::string key, std::vector<std::uint32_t>& into) {
  return {std::move(key), Kind::kTextList,
          [&into](const Value& value) -> Result<> {
            for (const std::string& text : value.list) {
              const char* last = text.data() + text.size();
              std::uint32_t uid = 0;
              const auto [end, error] = std::from_chars(text.data(), last, uid);
              if (error != std::errc{} || end != last) {
                const passwd* user = ::getpwnam(text.c_str());
                if (user == nullptr) {
                  return fail(Errc::kInvalid, fmt::format("there is no user '{}'", text));
                }
                uid = user->pw_uid;
              }
              into.push_back(uid);
            }
            return {};
          },
          [&into] { return fmt::format("{}", fmt::join(into, ", ")); }};
}

// Data servers go by TCP to the port that they know, where RDMA does not get through.
Result<> check_listen(const TargetConfig& config) {
  for (const layout::NetAddress& address : config.listen_rdma) {
    if (address.port == 0 || layout::is_wildcard(address)) {
      return fail(Errc::kInvalid, "target.listen needs an address and a port for RDMA");
    }
    if (std::ranges::find(config.listen, address.port, &layout::NetAddress::port) ==
        config.listen.end()) {
      return fail(Errc::kInvalid,
                  fmt::format("target.listen has port {} for RDMA and not for TCP, by which data "
                              "servers come where RDMA does not get through",
                              address.port));
    }
  }
  return {};
}

}  // namespace

std::vector<TomlField> target_config_fields(TargetConfig& config, ReadAddress read) {
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  std::vector<TomlField> fields{
      text_field("target.socket", config.socket),
      permissions_field("target.socket_mode", config.socket_mode),
      users_field("target.users", config.users),
      transports_field("target.listen", config.listen, config.listen_rdma, read),
      number_field("target.threads", config.threads, 0, 256),
      flag_field("target.pin_threads", config.pin_threads),
      number_field("target.memory_limit", config.memory_limit_bytes, 16 * kMiB,
                   std::int64_t{1} << 44, Kind::kBytes),
      number_field("target.max_connections", config.max_connections, 0, 1'000'000),
      number_field("target.max_spaces", config.max_spaces, 1, 10'000),
      number_field("target.watchdog_seconds", config.watchdog, 0, 3600),
      number_field("target.silence_seconds", config.silence, 2, 3600),
      number_field("target.drain_seconds", config.drain, 0, 600),
      log_level_field("target.log_level", config.log_level),
      metrics_field("target.metrics", config.metrics, read),
      text_field("store.path", config.store.path),
      flag_field("store.create", config.store.create),
      mode_field("store.mode", config.store.mode),
      number_field("store.max_open_files", config.store.max_open_files, 64, 1'000'000),
      number_field("store.worker_threads", config.store.worker_threads, 1, 64),
      flag_field("store.checksums", config.checksums),
      number_field("store.disk_patience_seconds", config.disk_patience, 2, 3600),
      cache_size_field("cache.size", config.cache_bytes),
      text_field("cluster.key_file", config.key_file),
  };
  add_emulated_disk_fields(fields, config.emulated_disk);
  return fields;
}

std::size_t max_connections(const TargetConfig& config) {
  constexpr std::size_t kMostThreads = 256;  // of a data server
  return config.max_connections == 0 ? config.max_spaces * kMostThreads : config.max_connections;
}

Result<TargetConfig> parse_target_config(std::string_view text, const std::string& name,
                                         ReadAddress address) {
  TargetConfig config;
  if (auto read = read_toml(text, name, target_config_fields(config, address)); !read) {
    return pass(read);
  }
  return config;
}

Result<TargetConfig> load_target_config(const std::string& path, ReadAddress address) {
  auto text = read_config_text(path);
  if (!text) return pass(text);
  return parse_target_config(*text, path, address);
}

rpc::control::Options target_options(const TargetConfig& config) {
  TargetConfig now = config;
  TargetConfig fresh;
  const std::vector<TomlField> values = target_config_fields(now);
  const std::vector<TomlField> defaults = target_config_fields(fresh);
  rpc::control::Options told;
  for (std::size_t i = 0; i < values.size(); ++i) {
    told.options.push_back({values[i].key, values[i].show(), defaults[i].show()});
  }
  return told;
}

Result<> check_target_config(const TargetConfig& config) {
  const auto missing = [](std::string_view key) {
    return fail(Errc::kInvalid, fmt::format("{} is not set", key));
  };
  if (config.socket.empty() && config.listen.empty()) {
    return fail(Errc::kInvalid, "set target.socket, target.listen or both");
  }
  if (auto good = check_listen(config); !good) return good;
  if (!config.socket.empty() &&
      (config.socket.front() != '/' || config.socket.size() > kMaxSocketPath)) {
    return fail(
        Errc::kInvalid,
        fmt::format("target.socket must be an absolute path of at most {} bytes", kMaxSocketPath));
  }
  if (config.store.path.empty()) return missing("store.path");
  if (!config.store.path.starts_with('/')) {
    return fail(Errc::kInvalid, "store.path must be an absolute path");
  }
  if (config.key_file.empty()) return missing("cluster.key_file");
  const bool kernel_caches = config.store.mode == IoMode::kBuffered && !config.emulated_disk.on();
  if (config.cache_bytes > 0 && kernel_caches) {
    return fail(Errc::kInvalid,
                "cache.size needs store.mode = \"direct\": what is read in buffered mode is in the "
                "kernel's page cache already");
  }
  return {};
}

}  // namespace weft::ds
