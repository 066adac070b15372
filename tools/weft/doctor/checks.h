// What weft doctor finds out about a machine, and what it says of it: a line a check.
//
// Threading: pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ganesha-fsal/admin/path_reports.h"
#include "ganesha-fsal/config/options_check.h"
#include "layout/net_address.h"
#include "rpc/transport/path_try.h"
#include "rpc/xdr/describe_json.h"

namespace weft::cli {

enum class Found { kGood, kNote, kBad };  // a note is worth knowing, and not wrong

struct Check {
  std::string what;
  Found found = Found::kGood;
  std::string is;
  std::string to_do;  // of what is not good
};

[[nodiscard]] Check check_clock(bool synchronized);
// `control`: net.ipv4.tcp_congestion_control.
[[nodiscard]] Check check_congestion(std::string_view control, bool has_data_servers);
// `most`: fs.nr_open.
[[nodiscard]] Check check_limits(std::uint64_t most_files);
// `disabled`: kernel.io_uring_disabled, empty where there is no such thing.
[[nodiscard]] Check check_io_uring(std::string_view disabled);

// Where metadata stores are, or what they are going to be in: what a good configuration says.
// `usual` where there is none that does.
[[nodiscard]] std::vector<std::string> metadata_folders(
    const Result<mds::CheckedConf>& conf, const std::string& usual,
    const std::function<bool(const std::string&)>& exists);

struct FolderFacts {
  std::string path;
  std::string file_system;  // "ext4"; empty: not known
  bool has_holes = true;
  double syncs_per_second = 0;  // of 4 KiB written at the end of a file
  std::uint64_t free_bytes = 0;
  std::uint64_t capacity_bytes = 0;
  bool metadata = false;  // every change of a name waits for a sync there
  std::string trouble;    // why nothing can be written; empty: it can
};
[[nodiscard]] std::vector<Check> check_folder(const FolderFacts& facts);

// How it is to get to another server.
struct PathFacts {
  std::string to;  // "metadata server 192.0.2.1:20480"
  rpc::TriedPath path;
};
[[nodiscard]] std::vector<Check> check_path(const PathFacts& facts);

// Whether data servers reach each other, as the metadata server had them find out.
[[nodiscard]] std::vector<Check> check_paths(const mds::PathsReport& report);

struct VersionFacts {
  std::string what;
  std::string version;
};
[[nodiscard]] Check check_versions(const std::vector<VersionFacts>& versions);

// The text that a TOML file has for this key ("store.path"), or those of its list. None of a file
// that cannot be read.
[[nodiscard]] std::vector<std::string> toml_texts(std::string_view file, std::string_view key);
// Servers that this machine has as an NFSv4 client: /proc/fs/nfsfs/servers.
[[nodiscard]] std::vector<layout::NetAddress> nfs_servers(std::string_view file);

[[nodiscard]] std::string checks_text(const std::vector<Check>& checks);
[[nodiscard]] Json checks_json(const std::vector<Check>& checks);
[[nodiscard]] bool any_bad(const std::vector<Check>& checks);

}  // namespace weft::cli
