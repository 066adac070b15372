// Frames on a Unix stream socket, with deadlines: what both ends of the admin socket share.
//
// Threading: plain functions; a file descriptor is used by one thread at a time. The descriptors
// are non-blocking; waiting is done with poll(2) until the deadline.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "rpc/base/buffer.h"
#include "rpc/base/error.h"

namespace weft::mds::admin {

using Deadline = std::chrono::steady_clock::time_point;

[[nodiscard]] inline Deadline after(std::chrono::milliseconds wait) {
  return std::chrono::steady_clock::now() + wait;
}

// A non-blocking socket listening at `path`, which only the owner may connect to (mode 0600). A
// socket file that nobody listens at any more is replaced; kExists when somebody does, or when
// something else than a socket is there. Missing folders are made (0755).
[[nodiscard]] Result<OwnedFd> listen_at(const std::string& path);

// kNotFound when there is no socket, kUnreachable when nobody listens, kAccess.
[[nodiscard]] Result<OwnedFd> connect_to(const std::string& path);

// kTimedOut at the deadline, kClosed when the peer is gone.
[[nodiscard]] Result<> send_frame(int fd, std::span<const std::byte> bytes, Deadline deadline);
// kTooLarge when the peer announces more than max_bytes.
[[nodiscard]] Result<std::vector<std::byte>> receive_frame(int fd, std::size_t max_bytes,
                                                           Deadline deadline);

// Waits until one of the descriptors is readable; which, or kTimedOut.
[[nodiscard]] Result<int> wait_readable(std::span<const int> fds, Deadline deadline);

}  // namespace weft::mds::admin
