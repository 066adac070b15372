// The commands of `weft`: each asks, prints to standard output, and says how the process ends.
//
// Threading: one thread; blocking.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ganesha-fsal/admin/client.h"

namespace weft::cli {

// How the process ends, as weft-ds and weft-target do. Scripts may rely on these.
constexpr int kExitGood = 0;
constexpr int kExitBad = 1;     // the answer is bad news (verify: not pNFS; fsck: damage)
constexpr int kExitFailed = 2;  // no answer could be had

struct Settings {
  std::string socket;  // of the metadata server's admin
  bool json = false;
};

struct VerifyOptions {
  std::string mount;
  bool look_only = false;  // no I/O of our own
  std::uint64_t probe_bytes = std::uint64_t{16} << 20;
};

struct BackupOptions {
  std::string folder;                                    // where to; nothing is there yet
  std::string configuration = "/etc/weft/ganesha.conf";  // to be saved, too
  bool configuration_named = false;                      // it has to be there
};

[[nodiscard]] int show_maintenance(const Settings& settings,
                                   const Result<mds::MaintenanceReport>& report);
[[nodiscard]] int status_command(const Settings& settings);
[[nodiscard]] int ds_list_command(const Settings& settings);
// Says how a data server is added.
[[nodiscard]] int ds_add_command(const Settings& settings);
[[nodiscard]] int scrub_status_command(const Settings& settings);
// The file's path or number, and the data server whose copies are right.
[[nodiscard]] int scrub_resolve_command(const Settings& settings, const std::string& file,
                                        const std::string& from);
// `file` as below; empty: all. `only_tell`: nothing is changed.
[[nodiscard]] int scrub_command(const Settings& settings, const std::string& file, bool only_tell);
// What changes something (admin/requests.h).
template <mds::admin::Request R>
[[nodiscard]] int maintain_command(const Settings& settings, const R& request) {
  return show_maintenance(settings, mds::admin::Client(settings.socket).ask(request));
}
// `file`: a path on an NFS mount of this machine, or as clients see it in the export.
[[nodiscard]] int layout_show_command(const Settings& settings, const std::string& file);
// `path`: as above, or a directory. Set replaces the whole policy; `policy` empty: clears it.
// Change leaves the keys that are not named.
[[nodiscard]] int policy_show_command(const Settings& settings, const std::string& path);
[[nodiscard]] int policy_change_command(const Settings& settings, const std::string& path,
                                        const std::string& keys);
[[nodiscard]] int policy_set_command(const Settings& settings, const std::string& path,
                                     const std::string& policy);
[[nodiscard]] int verify_command(const Settings& settings, const VerifyOptions& options);
[[nodiscard]] int keygen_command(const Settings& settings, const std::string& path);
// Of a key file. `key`: a fingerprint, as key_show_command() prints them.
[[nodiscard]] int key_show_command(const Settings& settings, const std::string& path);
// Which servers have which keys: asks the metadata server.
[[nodiscard]] int key_status_command(const Settings& settings);
[[nodiscard]] int key_add_command(const Settings& settings, const std::string& path);
[[nodiscard]] int key_use_command(const Settings& settings, const std::string& path,
                                  const std::string& key);
[[nodiscard]] int key_drop_command(const Settings& settings, const std::string& path,
                                   const std::string& key);
// A file of ganesha.nfsd's; weft-ds or weft-target check their own.
[[nodiscard]] int check_config_command(const Settings& settings, const std::string& path);
// Which of the two a .toml is of, by the tables that are in it or that were most likely meant.
[[nodiscard]] Result<std::string> program_of_config(const std::string& path);
// Saves the metadata store of a server that runs.
[[nodiscard]] int backup_command(const Settings& settings, const BackupOptions& options);
// Runs weft-restore, as below.
[[nodiscard]] int restore_command(const Settings& settings,
                                  const std::vector<std::string>& arguments);
[[nodiscard]] int restored_status_command(const Settings& settings);
// A file's path or number; empty: of all that are damaged.
[[nodiscard]] int restored_accept_command(const Settings& settings, const std::string& file);
// Runs weft-fsck, of the same folder as this program or of PATH, in place of this process.
[[nodiscard]] int fsck_command(const Settings& settings, const std::vector<std::string>& arguments);

}  // namespace weft::cli
