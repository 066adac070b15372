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

constexpr std::size_t kDescriptors = 3;  // of a greeting
constexpr std::size_t kMaxReceived = 8;  // the kernel closes what comes beyond

// As sendmsg(), with descriptors. At most kDescriptors.
ssize_t send_with(int socket, std::span<std::byte> bytes, std::span<const int> descriptors) {
  iovec vector{bytes.data(), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kDescriptors * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
  cmsghdr* part = CMSG_FIRSTHDR(&message);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(descriptors.size_bytes());
  std::memcpy(CMSG_DATA(part), descriptors.data(), descriptors.size_bytes());
  return ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

struct Received {
  ssize_t bytes = -1;  // errno says more
  std::vector<OwnedFd> descriptors;
  bool truncated = false;
};

// As recvmsg(). Takes over every descriptor that came, wanted or not.
Received receive_with(int socket, std::span<std::byte> bytes) {
  Received out;
  iovec vector{bytes.data(), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxReceived * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  out.bytes = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (out.bytes < 0) return out;
  out.truncated = (message.msg_flags & MSG_CTRUNC) != 0;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof fd);
      out.descriptors.emplace_back(fd);
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

Result<> send_greeting(int socket, const Greeting& greeting, int rings, int arena, int handing) {
  Greeting copy = greeting;
  const int descriptors[kDescriptors] = {rings, arena, handing};
  if (send_with(socket, std::as_writable_bytes(std::span(&copy, 1)), descriptors) !=
      static_cast<ssize_t>(sizeof copy)) {
    return fail_errno(errno, "send the greeting");
  }
  return {};
}

Result<ReceivedGreeting> receive_greeting(int socket) {
  ReceivedGreeting out;
  Received came = receive_with(socket, std::as_writable_bytes(std::span(&out.greeting, 1)));
  if (came.bytes < 0) return fail_errno(errno, "receive a greeting");
  if (came.bytes != static_cast<ssize_t>(sizeof out.greeting) ||
      out.greeting.magic != kGreetingMagic || came.descriptors.size() != kDescriptors ||
      came.truncated) {
    return fail(Errc::kProtocol, "not a greeting of ours");
  }
  out.rings = std::move(came.descriptors[0]);
  out.arena = std::move(came.descriptors[1]);
  out.handing = std::move(came.descriptors[2]);
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

// --- Descriptors, one a message ------------------------------------------------------------------

Result<HandingPair> make_handing_pair() {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    return fail_errno(errno, "make a pair of sockets");
  }
  return HandingPair{.near = OwnedFd(ends[0]), .far = OwnedFd(ends[1])};
}

bool hand_over(int handing, int descriptor) {
  std::byte nothing{};
  return send_with(handing, std::span(&nothing, 1), std::span(&descriptor, 1)) == 1;
}

Result<OwnedFd> take_handed(int handing) {
  std::byte nothing{};
  Received came = receive_with(handing, std::span(&nothing, 1));
  if (came.bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    return fail(Errc::kNotFound, "no descriptor was handed over");
  }
  if (came.bytes < 0) return fail_errno(errno, "take a descriptor");
  // The kernel drops what it finds no number for, and says that there was more.
  if (came.descriptors.empty() && came.truncated) {
    return fail(Errc::kBusy, "no descriptor is free for one that was handed over");
  }
  if (came.descriptors.size() != 1) return fail(Errc::kProtocol, "not one descriptor");
  return std::move(came.descriptors.front());
}

}  // namespace weft::rpc
