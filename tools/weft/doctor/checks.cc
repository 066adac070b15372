#include "tools/weft/doctor/checks.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <ranges>

#include "rpc/base/toml.h"
#include "rpc/control/try_addresses.h"
#include "tools/weft/table.h"

namespace weft::cli {
namespace {

constexpr double kFewSyncs = 200;                 // a second, for the metadata store
constexpr double kFewestSyncs = 5;                // of any disk that is in order
constexpr std::uint64_t kFilesOfUnits = 1048576;  // LimitNOFILE
constexpr const char* kOneMtu = "give all machines and switches of the network one MTU";

std::string_view word(Found found) {
  switch (found) {
    case Found::kGood: return "ok";
    case Found::kNote: return "note";
    case Found::kBad: return "BAD";
  }
  return "";
}

// Its next word; the rest stays in `line`.
std::string_view next_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  const std::string_view found = line.substr(0, line.find_first_of(" \t"));
  line.remove_prefix(found.size());
  return found;
}

std::string_view next_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), line.size() + 1));
  return line;
}

std::optional<layout::NetAddress> hex_address(std::string_view ip, std::string_view port) {
  layout::NetAddress address;
  address.v6 = ip.size() == 32;
  if (ip.size() != 8 && ip.size() != 32) return std::nullopt;
  for (std::size_t i = 0; i < ip.size() / 2; ++i) {
    const char* const at = ip.data() + 2 * i;
    const auto [end, error] = std::from_chars(at, at + 2, address.ip[i], 16);
    if (error != std::errc{} || end != at + 2) return std::nullopt;
  }
  const char* const last = port.data() + port.size();
  const auto [end, error] = std::from_chars(port.data(), last, address.port, 16);
  if (error != std::errc{} || end != last) return std::nullopt;
  return address;
}

Check check_broken(const std::string& from, const mds::BrokenPathReport& broken) {
  const std::string path = fmt::format("from {} to {} {}", from, broken.to.name, broken.address);
  if (broken.why.starts_with(rpc::control::kOfMtu)) {
    return {"MTU", Found::kBad,
            fmt::format("{}: {}", path, broken.why.substr(rpc::control::kOfMtu.size())), kOneMtu};
  }
  const std::string port = broken.address.substr(broken.address.rfind(':') + 1);
  return {"port", Found::kBad, fmt::format("{}: {}", path, broken.why),
          fmt::format("let the firewalls of {0} and {1}, and between them, pass TCP port {2} from "
                      "{0} to {1}: copies go that way",
                      from, broken.to.name, port)};
}

}  // namespace

std::vector<std::string> metadata_folders(const Result<mds::CheckedConf>& conf,
                                          const std::string& usual,
                                          const std::function<bool(const std::string&)>& exists) {
  std::vector<std::string> folders;
  const auto add = [&](const std::string& path) {
    if (!exists(path)) return false;
    if (std::ranges::find(folders, path) == folders.end()) folders.push_back(path);
    return true;
  };
  if (conf) {
    for (const auto& [path, said] : conf->stores) {
      // It is made at the first start.
      if (!add(path)) add(std::filesystem::path(path).parent_path().string());
    }
  }
  if (folders.empty()) add(usual);
  return folders;
}

Check check_clock(bool synchronized) {
  if (synchronized) return {"clock", Found::kGood, "set by a time service", ""};
  return {
      "clock", Found::kNote, "not set by a time service",
      "apt install chrony: a restore chooses between copies by data servers' clocks, and times of "
      "files and of log lines differ between machines"};
}

Check check_congestion(std::string_view control, bool has_data_servers) {
  const std::string is(control);
  if (control != "bbr") return {"congestion control", Found::kGood, is, ""};
  return {"congestion control", has_data_servers ? Found::kBad : Found::kNote, is,
          "sysctl -w net.ipv4.tcp_congestion_control=cubic, and the same in /etc/sysctl.d: a data "
          "server pays for bbr with most of its processor time"};
}

Check check_limits(std::uint64_t most_files) {
  const std::string is = fmt::format("{} open files", most_files);
  if (most_files >= kFilesOfUnits) return {"limits", Found::kGood, is, ""};
  return {"limits", Found::kBad, is,
          fmt::format("sysctl -w fs.nr_open={}: services do not start with less", kFilesOfUnits)};
}

Check check_io_uring(std::string_view disabled) {
  if (disabled.empty() || disabled == "0") return {"io_uring", Found::kGood, "allowed", ""};
  return {"io_uring", Found::kNote, "forbidden",
          "sysctl -w kernel.io_uring_disabled=0: what is not in the page cache is slower without"};
}

std::vector<Check> check_folder(const FolderFacts& facts) {
  std::vector<Check> out;
  const auto add = [&](Found found, std::string is, std::string to_do) {
    out.push_back({facts.path, found, std::move(is), std::move(to_do)});
  };
  if (!facts.trouble.empty()) {
    add(Found::kBad, facts.trouble, "make room, or look at the disk: dmesg, smartctl -a");
    return out;
  }
  const bool known = facts.file_system == "ext4" || facts.file_system == "xfs";
  add(known && facts.has_holes ? Found::kGood
      : facts.has_holes        ? Found::kNote
                               : Found::kBad,
      facts.file_system.empty() ? "a file system that is not known" : facts.file_system,
      facts.has_holes ? "ext4 and XFS are what is tested"
                      : "it has no sparse files: use ext4 or XFS");
  const std::string rate = fmt::format("{:.0f} syncs a second", facts.syncs_per_second);
  if (facts.syncs_per_second < kFewestSyncs) {
    add(Found::kBad, rate, "look at the disk: dmesg, smartctl -a");
  } else if (facts.metadata && facts.syncs_per_second < kFewSyncs) {
    add(Found::kNote, rate,
        "use a disk with quick syncs for the metadata store: every change of a name waits for one");
  } else {
    add(Found::kGood, rate, "");
  }
  const bool full = facts.free_bytes < facts.capacity_bytes / 20;
  add(full ? Found::kBad : Found::kGood,
      fmt::format("{} free of {}", human_bytes(facts.free_bytes),
                  human_bytes(facts.capacity_bytes)),
      full ? "make room: it is nearly full" : "");
  return out;
}

std::vector<Check> check_path(const PathFacts& facts) {
  if (!facts.path.error.empty()) {
    return {{"port", Found::kBad, fmt::format("{}: {}", facts.to, facts.path.error),
             "is it running, and does the firewall there pass this port from here?"}};
  }
  std::vector<Check> out{{"port", Found::kGood, facts.to + " accepts", ""}};
  if (!facts.path.mtu.empty()) {
    out.push_back({"MTU", Found::kBad, fmt::format("{}: {}", facts.to, facts.path.mtu), kOneMtu});
  }
  return out;
}

std::vector<Check> check_paths(const mds::PathsReport& report) {
  std::vector<Check> out;
  for (const mds::ServerPathsReport& from : report.servers) {
    const std::string& name = from.server.name;
    if (!from.why.empty()) {
      out.push_back({"port", Found::kNote, fmt::format("from {}: {}", name, from.why),
                     from.why == mds::kTooOldForPaths
                         ? "install one version of Weft on all machines"
                         : "run weft doctor again; weft ds list says how it is"});
    }
    for (const mds::BrokenPathReport& broken : from.broken) {
      out.push_back(check_broken(name, broken));
    }
    if (from.why.empty() && from.broken.empty() && from.tried > 0) {
      out.push_back({"port", Found::kGood, fmt::format("from {} to other data servers", name), ""});
    }
  }
  return out;
}

Check check_versions(const std::vector<VersionFacts>& versions) {
  std::string list;
  bool same = true;
  for (const VersionFacts& one : versions) {
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", one.what, one.version);
    same = same && one.version == versions.front().version;
  }
  if (same) return {"versions", Found::kGood, list, ""};
  return {"versions", Found::kBad, list, "install one version of Weft on all machines"};
}

std::vector<std::string> toml_texts(std::string_view file, std::string_view key) {
  if (not_ascii(file) != file.end()) return {};
  const toml::parse_result parsed = toml::parse(file);
  if (!parsed) return {};
  const toml::node* node = &parsed.table();
  for (const auto part : std::views::split(key, '.')) {
    const toml::table* const table = node->as_table();
    node = table == nullptr ? nullptr : table->get(std::string_view(part));
    if (node == nullptr) return {};
  }
  std::vector<std::string> out;
  const auto take = [&out](const toml::node& one) {
    if (const auto* text = one.as_string()) out.push_back(text->get());
  };
  take(*node);
  if (const toml::array* const list = node->as_array()) std::ranges::for_each(*list, take);
  return out;
}

std::vector<layout::NetAddress> nfs_servers(std::string_view file) {
  std::vector<layout::NetAddress> out;
  while (!file.empty()) {
    std::string_view line = next_line(file);
    if (next_word(line) != "v4") continue;
    const std::string_view ip = next_word(line);
    const auto address = hex_address(ip, next_word(line));
    if (address && std::ranges::find(out, *address) == out.end()) out.push_back(*address);
  }
  return out;
}

std::string checks_text(const std::vector<Check>& checks) {
  std::size_t width = 0;
  for (const Check& check : checks) width = std::max(width, columns(printable(check.what)));
  std::string out;
  for (const Check& check : checks) {
    const std::string what = printable(check.what);
    out += wrapped(fmt::format("{:<4}  {}{}  ", word(check.found), what,
                               std::string(width - columns(what), ' ')),
                   printable(check.is));
    if (check.found != Found::kGood && !check.to_do.empty()) {
      out += wrapped("      ", printable(check.to_do));
    }
  }
  return out;
}

Json checks_json(const std::vector<Check>& checks) {
  Json out = Json::array();
  for (const Check& check : checks) {
    constexpr std::array<const char*, 3> kWords{"good", "note", "bad"};
    out.push_back({{"check", check.what},
                   {"found", kWords[static_cast<std::size_t>(check.found)]},
                   {"is", check.is},
                   {"to_do", check.found == Found::kGood ? "" : check.to_do}});
  }
  return out;
}

bool any_bad(const std::vector<Check>& checks) {
  return std::ranges::any_of(checks, [](const Check& check) { return check.found == Found::kBad; });
}

}  // namespace weft::cli
