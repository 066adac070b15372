// Small files that must survive a crash, and the system calls a store needs around them.
//
// Everything here blocks and is for start, stop and worker threads, not for I/O threads.
//
// Threading: functions without state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/base/buffer.h"
#include "rpc/base/error.h"

namespace weft::ds {

// As fail_errno(), of a file of a store: what else would be a peer's or a caller's fault, such as a
// time-out of a disk, or a file that this process may not use, is an I/O error.
[[nodiscard]] std::unexpected<Error> fail_file(int err, std::string_view doing);

// An open directory, for the *at calls. kNotFound, kNotDirectory, kAccess.
[[nodiscard]] Result<OwnedFd> open_directory(const std::string& path);
// Creates the directory `name` unless it is there.
[[nodiscard]] Result<> ensure_directory(int parent, const char* name);
// Calls each(name) for all entries of the directory `name`, "." and ".." included. Errors as of
// fail_file().
[[nodiscard]] Result<> for_each_name(int parent, const std::string& name,
                                     const std::function<void(const char* name)>& each);
// Makes names created in, or removed from, a directory durable.
[[nodiscard]] Result<> sync_directory(int directory);

// A whole file of at most `max` bytes, in memory of its own size; kNotFound, kTooLarge.
[[nodiscard]] Result<std::vector<std::byte>> read_small_file(int directory, const char* name,
                                                             std::size_t max);
// All or nothing over a crash: writes beside it, syncs, renames, syncs the directory.
[[nodiscard]] Result<> replace_file(int directory, const char* name,
                                    std::span<const std::byte> bytes);
// Writes everything at `offset`, however many calls it takes.
[[nodiscard]] Result<> write_fully(int fd, std::span<const std::byte> bytes, std::uint64_t offset);
// Removes a name durably. Success when it is not there.
[[nodiscard]] Result<> remove_file(int directory, const char* name);

}  // namespace weft::ds
