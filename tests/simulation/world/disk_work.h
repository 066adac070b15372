// What the functions that are replaced (files*.cc, ring.cc) ask of a simulated disk: which file a
// descriptor is, that the disk takes its time, and the work itself. Internal to the disk's own
// files.
//
// Threading: as scheduler.h. What waits says so.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/simulation/world/disk_state.h"

namespace weft::sim::disk {

// The file or folder of a descriptor; null: not on a simulated disk.
[[nodiscard]] std::shared_ptr<Node> node_of(int fd);
// The folder's file or folder, or what is at a path; null as above, and when it is not there.
[[nodiscard]] std::shared_ptr<Node> node_at(int folder, const char* path);
// Where a path's last name is, whether there is such a name or not.
struct Named {
  std::shared_ptr<Node> folder;  // null: on no simulated disk
  std::string name;
};
[[nodiscard]] Named named(int folder, const char* path);

// The number is of that file or folder from now on.
void is_of(int fd, std::shared_ptr<Node> node);
// All that were found so far.
[[nodiscard]] std::vector<int> descriptors_of(const Node& node);

enum class Work { kRead, kWrite, kSync };
// Waits as long as the work takes, and longer while the disk is stuck. 0, or EIO.
[[nodiscard]] int take_time(Life& life, Work work);
// The same for an event: calls done(0 or EIO) when the time has come.
void after_time(Life& life, Work work, std::move_only_function<void(int error)> done);

// The work, at once. As the system calls: bytes, or -1 and errno.
[[nodiscard]] ssize_t read_now(int fd, const iovec* into, int count, off_t offset, int flags);
[[nodiscard]] ssize_t write_now(const std::shared_ptr<Node>& node, int fd, const iovec* from,
                                int count, off_t offset, int flags);
// ENOSPC, or 0 when the disk has room for these bytes of the file.
[[nodiscard]] int find_room(const Node& node, std::uint64_t from, std::uint64_t to);
// Bytes of the disk, and those of them that are free.
struct Space {
  std::uint64_t capacity = 0;
  std::uint64_t free = 0;
};
[[nodiscard]] Space space_of(const Life& life);

}  // namespace weft::sim::disk
