#include "rpc/transport/shm/greeting.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "rpc/transport/shm/ring.h"

namespace weft::rpc {
namespace {

constexpr std::size_t kDescriptors = 2;

// Takes over every descriptor that came, wanted or not.
std::vector<OwnedFd> descriptors_of(msghdr& message) {
  std::vector<OwnedFd> out;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof fd);
      out.emplace_back(fd);
    }
  }
  return out;
}

}  // namespace

std::size_t rings_bytes(std::size_t ring_capacity) {
  constexpr std::size_t kMask = SharedMemory::kPage - 1;
  return (2 * ring_bytes(ring_capacity) + kMask) & ~kMask;
}

Result<> check_peer(int socket, std::span<const uid_t> users) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return fail_errno(errno, "who the peer is");
  }
  const bool named = std::ranges::find(users, peer.uid) != users.end();
  if (peer.uid == 0 || peer.uid == ::geteuid() || named) return {};
  return fail(Errc::kAccess, "user " + std::to_string(peer.uid) + " may not share memory");
}

Result<> send_greeting(int socket, const Greeting& greeting, int rings, int arena) {
  Greeting copy = greeting;
  iovec bytes{&copy, sizeof copy};
  alignas(cmsghdr) char control[CMSG_SPACE(kDescriptors * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* part = CMSG_FIRSTHDR(&message);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(kDescriptors * sizeof(int));
  const int descriptors[kDescriptors] = {rings, arena};
  std::memcpy(CMSG_DATA(part), descriptors, sizeof descriptors);
  if (::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) !=
      static_cast<ssize_t>(sizeof copy)) {
    return fail_errno(errno, "send the greeting");
  }
  return {};
}

Result<ReceivedGreeting> receive_greeting(int socket) {
  ReceivedGreeting out;
  iovec bytes{&out.greeting, sizeof out.greeting};
  alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t n = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (n < 0) return fail_errno(errno, "receive a greeting");
  auto descriptors = descriptors_of(message);
  if (n != static_cast<ssize_t>(sizeof out.greeting) || out.greeting.magic != kGreetingMagic ||
      descriptors.size() != kDescriptors || (message.msg_flags & MSG_CTRUNC) != 0) {
    return fail(Errc::kProtocol, "not a greeting of ours");
  }
  out.rings = std::move(descriptors[0]);
  out.arena = std::move(descriptors[1]);
  return out;
}

Result<> send_welcome(int socket) {
  const Welcome welcome;
  if (::send(socket, &welcome, sizeof welcome, MSG_DONTWAIT | MSG_NOSIGNAL) !=
      static_cast<ssize_t>(sizeof welcome)) {
    return fail_errno(errno, "answer a greeting");
  }
  return {};
}

Result<> receive_welcome(int socket) {
  Welcome welcome;
  // No more than that: bells may come right behind.
  const ssize_t n = ::recv(socket, &welcome, sizeof welcome, MSG_DONTWAIT);
  if (n == 0) return fail(Errc::kUnreachable, "refused by the peer");
  if (n < 0) return fail_errno(errno, "receive the answer to a greeting");
  if (n != static_cast<ssize_t>(sizeof welcome) || welcome.magic != kGreetingMagic) {
    return fail(Errc::kProtocol, "not an answer to our greeting");
  }
  return {};
}

}  // namespace weft::rpc
