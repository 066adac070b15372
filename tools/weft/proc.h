// What this machine's kernel says of its NFS mounts, read from /proc.
//
// Threading: blocking reads; stateless.
#pragma once

#include <string>
#include <vector>

#include "rpc/base/error.h"
#include "tools/weft/mountstats.h"

namespace weft::cli {

[[nodiscard]] Result<std::vector<MountStats>> read_mountstats();

// Whether a pNFS layout driver is loaded (as a module), or modules can't be told (built in).
[[nodiscard]] bool layout_driver_loaded();

// The absolute path without symbolic links; the path itself, made absolute, if nothing is there.
[[nodiscard]] std::string resolved(const std::string& path);

// `file` as clients name it in the export: "/mnt/a/f" on a mount of "mds:/export" at /mnt is
// "/export/a/f". A path that is on none of the mounts is taken to be in the export already.
[[nodiscard]] std::string path_in_export(const std::vector<MountStats>& mounts,
                                         const std::string& file);

}  // namespace weft::cli
