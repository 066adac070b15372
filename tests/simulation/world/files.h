// What the functions that are replaced share: opening by whatever name, and the kernel's own files.
// Internal to files*.cc, proc_files.cc and syscalls.cc.
//
// Threading: as scheduler.h.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace weft::sim {

// openat(2) of the simulated machine.
[[nodiscard]] int open_file(int folder, const char* path, int flags, mode_t mode);
// A file of /proc, /sys or /dev with what it always holds: a descriptor, or -1 and errno for those
// that are not there. Nothing: some other file.
[[nodiscard]] std::optional<int> open_canned(const char* path);

}  // namespace weft::sim
