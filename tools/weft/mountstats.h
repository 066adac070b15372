// What the Linux NFS client counts: /proc/self/mountstats, parsed.
//
// The text comes from the kernel but may be of any version of it: unknown lines are passed over,
// and numbers that are absent stay 0.
//
// Threading: values and pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace weft::cli {

struct OpCount {
  std::uint64_t calls = 0;
  std::uint64_t errors = 0;  // replies with an error; counted by kernels since 5.3

  friend OpCount operator-(const OpCount& a, const OpCount& b) {
    return {a.calls - b.calls, a.errors - b.errors};
  }
};

struct MountStats {
  std::string device;       // "mds:/export"
  std::string mount_point;  // octal escapes undone
  std::string fstype;       // "nfs4"
  std::string options;      // "rw,vers=4.2,..."
  // The pNFS driver chosen for the mount: "LAYOUT_NFSV4_1_FILES", "LAYOUT_FLEX_FILES", "not
  // configured"; empty when the mount is older than NFSv4.1 and has no such thing.
  std::string pnfs_driver;
  // READs and WRITEs that were tried through a layout, at a data server.
  std::uint64_t pnfs_reads = 0;
  std::uint64_t pnfs_writes = 0;
  std::map<std::string, OpCount, std::less<>> ops;  // by name: READ, WRITE, LAYOUTGET, ...

  [[nodiscard]] OpCount op(std::string_view name) const;
  // The value of a mount option: option("vers") is "4.2". Empty when it has none or is absent.
  [[nodiscard]] std::string option(std::string_view name) const;
};

// Every NFS mount in the text.
[[nodiscard]] std::vector<MountStats> parse_mountstats(std::string_view text);

// The mount that `path` (absolute, without symbolic links) is on: the longest mount point that is a
// prefix of it by whole names, of the last mounted where two are the same. nullptr: none of them.
[[nodiscard]] const MountStats* mount_of(const std::vector<MountStats>& mounts,
                                         std::string_view path);

// mountstats and mountinfo write blanks, tabs, line feeds and backslashes in octal: "\040".
[[nodiscard]] std::string undo_escapes(std::string_view text);

}  // namespace weft::cli
