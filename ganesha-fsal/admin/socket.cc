#include "ganesha-fsal/admin/socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace weft::mds::admin {
namespace {

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return fail(Errc::kInvalid, "the socket's path is empty or longer than " +
                                    std::to_string(sizeof address.sun_path - 1) + ": " + path);
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

const sockaddr* generic(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

Result<OwnedFd> unix_socket() {
  OwnedFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return fail_errno(errno, "socket");
  return fd;
}

int remaining_ms(Deadline deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 3'600'000));
}

Result<> wait_for(int fd, short events, Deadline deadline) {
  for (;;) {
    pollfd entry{fd, events, 0};
    const int wait_ms = remaining_ms(deadline);
    const int ready = ::poll(&entry, 1, wait_ms);
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return fail_errno(errno, "poll");
    if (ready == 0 && remaining_ms(deadline) == 0) {
      return fail(Errc::kTimedOut, "no answer on the admin socket");
    }
  }
}

Result<> send_all(int fd, std::span<const std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      if (auto ready = wait_for(fd, POLLOUT, deadline); !ready) return ready;
    } else if (errno == EPIPE || errno == ECONNRESET) {
      return fail(Errc::kClosed, "the admin connection");
    } else if (errno != EINTR) {
      return fail_errno(errno, "send");
    }
  }
  return {};
}

Result<> receive_all(int fd, std::span<std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(fd, bytes.data(), bytes.size(), 0);
    if (got > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(got));
    } else if (got == 0 || errno == ECONNRESET) {
      return fail(Errc::kClosed, "the admin connection");
    } else if (errno == EAGAIN) {
      if (auto ready = wait_for(fd, POLLIN, deadline); !ready) return ready;
    } else if (errno != EINTR) {
      return fail_errno(errno, "recv");
    }
  }
  return {};
}

}  // namespace

Result<OwnedFd> listen_at(const std::string& path) {
  auto address = address_of(path);
  if (!address) return pass(address);
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  struct stat found{};
  if (::lstat(path.c_str(), &found) == 0) {
    if (!S_ISSOCK(found.st_mode)) return fail(Errc::kExists, path + " is not a socket");
    auto other = connect_to(path);
    if (other || !(other.error() == Errc::kUnreachable)) {
      return fail(Errc::kExists, "somebody listens at " + path);
    }
    ::unlink(path.c_str());
  }
  auto fd = unix_socket();
  if (!fd) return fd;
  // The mode is set before anybody could connect: listen comes after it.
  if (::bind(fd->get(), generic(*address), sizeof *address) != 0) {
    return fail_errno(errno, "bind " + path);
  }
  if (::chmod(path.c_str(), 0600) != 0) return fail_errno(errno, "chmod " + path);
  if (::listen(fd->get(), 16) != 0) return fail_errno(errno, "listen " + path);
  return fd;
}

Result<OwnedFd> connect_to(const std::string& path) {
  auto address = address_of(path);
  if (!address) return pass(address);
  auto fd = unix_socket();
  if (!fd) return fd;
  if (::connect(fd->get(), generic(*address), sizeof *address) == 0) return fd;
  switch (errno) {
    case ECONNREFUSED: return fail(Errc::kUnreachable, path);
    case EAGAIN: return fail(Errc::kBusy, path);
    default: return fail_errno(errno, path);
  }
}

Result<> send_frame(int fd, std::span<const std::byte> bytes, Deadline deadline) {
  std::array<std::byte, 4> length{};
  for (std::size_t i = 0; i < 4; ++i) length[i] = std::byte(bytes.size() >> (24 - 8 * i) & 0xff);
  if (auto sent = send_all(fd, length, deadline); !sent) return sent;
  return send_all(fd, bytes, deadline);
}

Result<std::vector<std::byte>> receive_frame(int fd, std::size_t max_bytes, Deadline deadline) {
  std::array<std::byte, 4> head{};
  if (auto got = receive_all(fd, head, deadline); !got) return pass(got);
  std::size_t length = 0;
  for (const std::byte byte : head) length = length << 8 | std::to_integer<std::size_t>(byte);
  if (length > max_bytes) {
    return fail(Errc::kTooLarge, "a message of " + std::to_string(length) + " bytes");
  }
  std::vector<std::byte> bytes(length);
  if (auto got = receive_all(fd, bytes, deadline); !got) return pass(got);
  return bytes;
}

Result<int> wait_readable(std::span<const int> fds, Deadline deadline) {
  std::vector<pollfd> entries;
  for (const int fd : fds) entries.push_back({fd, POLLIN, 0});
  for (;;) {
    const int ready = ::poll(entries.data(), entries.size(), remaining_ms(deadline));
    if (ready < 0 && errno != EINTR) return fail_errno(errno, "poll");
    for (const pollfd& entry : entries) {
      if (ready > 0 && entry.revents != 0) return entry.fd;
    }
    if (ready == 0 && remaining_ms(deadline) == 0) return fail(Errc::kTimedOut);
  }
}

}  // namespace weft::mds::admin
