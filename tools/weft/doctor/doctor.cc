#include "tools/weft/doctor/doctor.h"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <sys/statfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <charconv>
#include <filesystem>
#include <map>
#include <set>

#include "ganesha-fsal/admin/client.h"
#include "ganesha-fsal/config/options_check.h"
#include "rpc/base/buffer.h"
#include "rpc/peer/endpoint.h"
#include "rpc/peer/resolve.h"
#include "rpc/transport/path_try.h"
#include "tools/weft/doctor/checks.h"
#include "tools/weft/output.h"
#include "tools/weft/setup/setup_texts.h"
#include "tools/weft/table.h"

namespace weft::cli {
namespace {

using rpc::PathTry;
using rpc::TriedPath;
using Steady = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTrying{3000};  // a server
constexpr std::chrono::milliseconds kSyncing{500};
constexpr std::chrono::milliseconds kAllPaths{60'000};  // data servers try some seconds each

std::string first_line(const std::string& path) {
  auto text = read_text(path);
  return text ? text->substr(0, text->find('\n')) : "";
}

std::uint64_t number_in(const std::string& path) {
  const std::string text = first_line(path);
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// Without CAP_SYS_TIME it only asks.
bool clock_is_synchronized() {
  timex state{};
  const int answer = ::adjtimex(&state);
  return answer >= 0 && (state.status & STA_UNSYNC) == 0;
}

std::string file_system_name(long magic) {
  switch (magic) {
    case 0xef53: return "ext4";
    case 0x58465342: return "xfs";
    case 0x9123683e: return "btrfs";
    case 0x01021994: return "tmpfs";
    case 0x794c7630: return "overlayfs";
    case 0x6969: return "nfs";
    case 0x2fc12fc1: return "zfs";
    default: return "";
  }
}

// How many times in half a second 4 KiB are appended and synced; and whether a hole is one.
Result<> measure(int file, FolderFacts& facts) {
  const auto failed = [] { return fail_errno(errno, "nothing can be written there"); };
  constexpr ssize_t kPageBytes = 4096;
  const std::array<char, kPageBytes> page{};
  const auto begin = Steady::now();
  unsigned syncs = 0;
  off_t at = 0;
  while (Steady::now() - begin < kSyncing) {
    if (::pwrite(file, page.data(), page.size(), at) != kPageBytes) return failed();
    if (::fdatasync(file) != 0) return failed();
    at += static_cast<off_t>(page.size());
    ++syncs;
  }
  const std::chrono::duration<double> took = Steady::now() - begin;
  facts.syncs_per_second = syncs / took.count();
  const off_t far = at + (off_t{16} << 20);
  if (::pwrite(file, page.data(), page.size(), far) != kPageBytes) return failed();
  facts.has_holes = ::lseek(file, at, SEEK_HOLE) < far;
  return {};
}

// Nothing stays there.
std::vector<Check> look_at_folder(const std::string& path, bool metadata) {
  FolderFacts facts{.path = path, .metadata = metadata};
  struct statfs status{};
  if (::statfs(path.c_str(), &status) != 0) {
    return {{path, Found::kBad, fail_errno(errno, "it cannot be used").error().text,
             "make it, or mount its disk"}};
  }
  facts.file_system = file_system_name(status.f_type);
  facts.free_bytes = status.f_bavail * static_cast<std::uint64_t>(status.f_bsize);
  facts.capacity_bytes = status.f_blocks * static_cast<std::uint64_t>(status.f_bsize);
  const OwnedFd file(::open(path.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file) {
    return {{path, Found::kBad, fail_errno(errno, "no file can be made there").error().text,
             "run this as root; look at the mount and the disk"}};
  }
  if (auto measured = measure(file.get(), facts); !measured) facts.trouble = measured.error().text;
  return check_folder(facts);
}

PathFacts look_at_path(const std::string& what, const layout::NetAddress& address, PathTry::To to) {
  PathFacts facts{.to = what + " " + layout::to_string(address), .path = {}};
  boost::asio::io_context io;
  const auto path = PathTry::begin(io, rpc::peer::to_endpoint(address), to,
                                   [&facts](TriedPath tried) { facts.path = std::move(tried); });
  io.run_for(kTrying);
  path->give_up();
  io.run();
  return facts;
}

// Collects checks, in the order of the report.
class Doctor {
 public:
  Doctor(const Settings& settings, const DoctorOptions& options)
      : settings_(settings), options_(options) {}

  std::vector<Check> look() {
    find_data_servers();
    const bool first = exists(options_.places.conf());
    add(check_clock(clock_is_synchronized()));
    add(check_congestion(first_line("/proc/sys/net/ipv4/tcp_congestion_control"),
                         !stores_.empty()));
    if (first || !stores_.empty()) {
      add(check_limits(number_in("/proc/sys/fs/nr_open")));
      add(check_io_uring(first_line("/proc/sys/kernel/io_uring_disabled")));
    }
    if (first) look_at_mds();
    for (const std::string& store : stores_) add(look_at_folder(store, false));
    for (const layout::NetAddress& mds : control_)
      add(check_path(look_at_path("metadata server", mds, PathTry::To::kOther)));
    for (const layout::NetAddress& target : targets_)
      add(check_path(look_at_path("target", target, PathTry::To::kOther)));
    if (first) look_at_system();
    look_at_client();
    for (const std::string& server : options_.servers) look_at_server(server);
    if (versions_.size() > 1) add(check_versions(versions_));
    return std::move(checks_);
  }

 private:
  static bool exists(const std::string& path) {
    std::error_code error;
    return std::filesystem::exists(path, error);
  }

  void add(Check check) { checks_.push_back(std::move(check)); }
  void add(std::vector<Check> checks) { std::ranges::move(checks, std::back_inserter(checks_)); }

  // What the files of this machine's data servers and targets say.
  void find_data_servers() {
    std::set<std::string> programs;
    versions_.push_back({"weft", options_.version});
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(options_.places.etc(), error)) {
      const std::string name = entry.path().filename().string();
      const bool target = name.starts_with("target-");
      if ((!target && !name.starts_with("ds-")) || !name.ends_with(".toml")) continue;
      const std::string program = target ? "weft-target" : "weft-ds";
      programs.insert(program);
      const std::string path = entry.path().string();
      const auto checked = run_program({program_path(program), "--check-config", "--config", path},
                                       std::chrono::seconds(20));
      const bool good = checked && checked->status == 0;
      const std::string why = checked ? checked->output : checked.error().text;
      add(Check{"configuration", good ? Found::kGood : Found::kBad,
                good ? path : why.substr(0, why.find('\n')), "change the file as it says"});
      const auto text = read_text(path);
      if (!good || !text) continue;
      std::ranges::move(toml_texts(*text, "store.path"), std::back_inserter(stores_));
      for (const std::string& mds : toml_texts(*text, "cluster.mds")) find_address(mds, control_);
      for (const char* key : {"store.target", "store.parity"}) {
        for (const std::string& one : toml_texts(*text, key)) find_target(one);
      }
    }
    std::ranges::sort(stores_);
    for (const std::string& program : programs) look_at_version(program);
  }

  // "tcp:192.0.2.14:9640", "rdma://d4:9640"; those of this machine have a socket instead. By TCP a
  // target is reached in any case.
  void find_target(std::string_view text) {
    for (const std::string_view scheme : {"tcp:", "rdma://"}) {
      if (text.starts_with(scheme)) find_address(text.substr(scheme.size()), targets_);
    }
  }

  static void find_address(std::string_view text, std::vector<layout::NetAddress>& into) {
    const auto address = rpc::peer::resolve_address(text);
    if (address && std::ranges::find(into, *address) == into.end()) into.push_back(*address);
  }

  void look_at_version(const std::string& program) {
    const auto said = run_program({program_path(program), "--version"}, std::chrono::seconds(20));
    if (!said || said->status != 0) return;
    const std::string line = said->output.substr(0, said->output.find('\n'));
    versions_.push_back({program, line.substr(line.rfind(' ') + 1)});
  }

  void look_at_mds() {
    const std::string path = options_.places.conf();
    const auto checked = mds::check_conf_file(path);
    add(Check{"configuration", checked ? Found::kGood : Found::kBad,
              checked ? path : checked.error().text, "change the file as it says"});
    for (const std::string& warning : checked ? checked->warnings : std::vector<std::string>()) {
      add(Check{"configuration", Found::kNote, warning, "change the file as it says"});
    }
    for (const std::string& folder : metadata_folders(checked, options_.places.state(), exists)) {
      add(look_at_folder(folder, true));
    }
  }

  // Between data servers. False: not all of them said.
  bool look_at_paths() {
    const auto paths = mds::admin::Client(settings_.socket, kAllPaths).ask(mds::admin::GetPaths{});
    if (!paths) {
      add(Check{"port", Found::kNote, "between data servers: " + paths.error().describe(),
                paths.error() == Errc::kNotSupported ? "install one version of Weft on all machines"
                                                     : "run weft doctor again"});
      return false;
    }
    add(check_paths(*paths));
    return std::ranges::all_of(paths->servers,
                               [](const mds::ServerPathsReport& one) { return one.why.empty(); });
  }

  // From the metadata server to every data server, and between them.
  void look_at_system() {
    const auto system = mds::admin::Client(settings_.socket).ask(mds::admin::GetStatus{});
    if (!system) {
      add(Check{"metadata server", Found::kBad, admin_trouble(settings_.socket, system.error()),
                "systemctl status weft-mds says how it is"});
      return;
    }
    add(Check{"metadata server", Found::kGood, "answers", ""});
    versions_.push_back({"metadata server", system->status.version});
    std::string all;
    std::map<std::string, std::string> networks;  // what their clients are told
    for (const mds::DataServerReport& server : system->data_servers) {
      for (const mds::NetworkReport& network : server.networks) {
        for (const std::string& text : network.addresses) {
          if (layout::parse_address(text)) networks[network.name] += " " + text;
        }
      }
      if (!server.version.empty()) versions_.push_back({server.name, server.version});
      for (const std::string& text : server.addresses) {
        const auto address = layout::parse_address(text);
        if (!address) continue;
        add(check_path(look_at_path(server.name, *address, PathTry::To::kNfs)));
        all += " " + layout::to_string(*address);
      }
    }
    if (all.empty()) return;
    std::string who = look_at_paths() ? "" : "each data server";
    if (networks.empty()) who += who.empty() ? "clients" : ", and on clients";
    if (!who.empty()) {
      add(Check{"ports elsewhere", Found::kNote, "what others reach cannot be seen from here",
                "on " + who + ": weft doctor" + all});
    }
    for (const auto& [name, told] : networks) {
      add(Check{"network " + printable(name), Found::kNote,
                "what its clients reach cannot be seen from here",
                "on one of them: weft doctor" + told});
    }
  }

  // Every NFSv4 server that this machine has mounted something of, data servers among them.
  void look_at_client() {
    const auto known = read_text("/proc/fs/nfsfs/servers");
    if (!known) return;
    const auto servers = nfs_servers(*known);
    for (const layout::NetAddress& server : servers) {
      add(check_path(look_at_path("NFS server", server, PathTry::To::kNfs)));
    }
    if (servers.empty()) return;
    const bool driver =
        exists("/sys/module/nfs_layout_nfsv41_files") || exists("/sys/module/nfs_layout_flexfiles");
    add(Check{"layout driver", driver ? Found::kGood : Found::kNote,
              driver ? "loaded" : "not loaded",
              "modprobe nfs_layout_nfsv41_files; weft verify MOUNT says whether it is used"});
  }

  void look_at_server(const std::string& text) {
    const auto address = rpc::peer::resolve_address(text);
    if (!address) {
      add(Check{"port", Found::kBad, printable(address.error().text),
                "say it like 192.0.2.11:2051, or with a name that is known here"});
      return;
    }
    add(check_path(look_at_path("server", *address, PathTry::To::kNfs)));
  }

  const Settings& settings_;
  const DoctorOptions& options_;
  std::vector<Check> checks_;
  std::vector<VersionFacts> versions_;
  std::vector<std::string> stores_;          // of data servers and targets here
  std::vector<layout::NetAddress> control_;  // the metadata server's, as they say
  std::vector<layout::NetAddress> targets_;  // those elsewhere, as they say
};

}  // namespace

int doctor_command(const Settings& settings, const DoctorOptions& options) {
  const auto checks = Doctor(settings, options).look();
  settings.json ? print(checks_json(checks)) : print(checks_text(checks));
  return any_bad(checks) ? kExitBad : kExitGood;
}

}  // namespace weft::cli
