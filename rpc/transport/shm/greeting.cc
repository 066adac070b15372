#include "rpc/transport/shm/greeting.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/base/late_close.h"
#include "rpc/transport/shm/ring.h"

namespace weft::rpc {
namespace {

constexpr std::size_t kDescriptors = 4;  // of a greeting
constexpr std::size_t kMaxReceived = 8;  // the kernel closes what comes beyond
constexpr std::size_t kMaxUnclosed = 64;

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

constexpr std::string_view kEventfd = "anon_inode:[eventfd]";

// What a descriptor is of, as the kernel makes it up; empty: without /proc nobody knows.
std::string link_of(int descriptor) {
  char is[64];
  const auto path = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t size = ::readlink(path.c_str(), is, sizeof is);
  return size < 0 ? std::string() : std::string(is, static_cast<std::size_t>(size));
}

// Memory, a Unix socket or an eventfd: to ask it what it is, and to close it, takes no time. All
// else may be of a file system that does not answer; only what the kernel knows by itself is asked.
bool takes_no_time(int descriptor) {
  if (::fcntl(descriptor, F_GET_SEALS) >= 0 || link_of(descriptor) == kEventfd) return true;
  int domain = 0;
  socklen_t size = sizeof domain;
  return ::getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
}

// A descriptor that a peer sent. Nobody waits for it to be closed, whatever it is.
class Sent {
 public:
  explicit Sent(int descriptor) : descriptor_(descriptor) {}
  Sent(Sent&&) = default;
  Sent& operator=(Sent&&) = delete;
  ~Sent() {
    if (descriptor_ && !takes_no_time(descriptor_.get())) close_late(std::move(descriptor_));
  }
  [[nodiscard]] int get() const { return descriptor_.get(); }
  [[nodiscard]] OwnedFd take() { return std::move(descriptor_); }

 private:
  OwnedFd descriptor_;
};

struct Received {
  ssize_t bytes = -1;  // errno says more
  std::vector<Sent> descriptors;
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

Result<uid_t> user_of(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return fail_errno(errno, "who the peer is");
  }
  return peer.uid;
}

// Root and our own user could stop this process at any time.
bool may_stop_us(uid_t user) { return user == 0 || user == ::geteuid(); }

// What to wake the peer by, of what it sent as its bell.
Result<OwnedFd> usable_bell(int socket, Sent& sent) {
  const std::string is = link_of(sent.get());
  if (is.empty()) return OwnedFd();
  if (is != kEventfd) return fail(Errc::kProtocol, "a bell that is no eventfd");
  auto user = user_of(socket);
  if (!user || !may_stop_us(*user)) return OwnedFd();
  return sent.take();
}

// Each greeting may leave some. Who could stop this process leaves none.
Result<> few_unclosed(int socket) {
  if (unclosed() < kMaxUnclosed) return {};
  auto user = user_of(socket);
  if (user && may_stop_us(*user)) return {};
  return fail(Errc::kBusy, "descriptors that came with greetings are not closed yet");
}

}  // namespace

std::size_t rings_bytes(std::size_t ring_capacity) {
  constexpr std::size_t kMask = SharedMemory::kPage - 1;
  return (2 * ring_bytes(ring_capacity) + kMask) & ~kMask;
}

Result<> check_peer(int socket, std::span<const uid_t> users) {
  auto user = user_of(socket);
  if (!user) return pass(user);
  if (may_stop_us(*user) || std::ranges::find(users, *user) != users.end()) return {};
  return fail(Errc::kAccess, "user " + std::to_string(*user) + " may not share memory");
}

Result<> send_greeting(int socket, const Greeting& greeting, int rings, int arena, int handing,
                       int bell) {
  Greeting copy = greeting;
  const int descriptors[kDescriptors] = {rings, arena, handing, bell};
  if (send_with(socket, std::as_writable_bytes(std::span(&copy, 1)), descriptors) !=
      static_cast<ssize_t>(sizeof copy)) {
    return fail_errno(errno, "send the greeting");
  }
  return {};
}

Result<ReceivedGreeting> receive_greeting(int socket) {
  if (auto few = few_unclosed(socket); !few) return pass(few);
  ReceivedGreeting out;
  Received came = receive_with(socket, std::as_writable_bytes(std::span(&out.greeting, 1)));
  if (came.bytes < 0) return fail_errno(errno, "receive a greeting");
  if (came.bytes != static_cast<ssize_t>(sizeof out.greeting) ||
      out.greeting.magic != kGreetingMagic || came.descriptors.size() != kDescriptors ||
      came.truncated) {
    return fail(Errc::kProtocol, "not a greeting of ours");
  }
  auto bell = usable_bell(socket, came.descriptors[3]);
  if (!bell) return pass(bell);
  for (const std::size_t i : {0, 1, 2}) {
    if (takes_no_time(came.descriptors[i].get())) continue;
    return fail(Errc::kProtocol, "a greeting with neither memory nor a socket");
  }
  out.rings = came.descriptors[0].take();
  out.arena = came.descriptors[1].take();
  out.handing = came.descriptors[2].take();
  out.bell = std::move(*bell);
  return out;
}

Result<> send_welcome(int socket, int bell) {
  Welcome welcome;
  if (send_with(socket, std::as_writable_bytes(std::span(&welcome, 1)), std::span(&bell, 1)) !=
      static_cast<ssize_t>(sizeof welcome)) {
    return fail_errno(errno, "answer a greeting");
  }
  return {};
}

Result<OwnedFd> receive_welcome(int socket) {
  Welcome welcome;
  // No more than that: bytes that wake us may come right behind.
  Received came = receive_with(socket, std::as_writable_bytes(std::span(&welcome, 1)));
  if (came.bytes == 0) return fail(Errc::kUnreachable, "refused by the peer");
  if (came.bytes < 0) return fail_errno(errno, "receive the answer to a greeting");
  if (came.bytes != static_cast<ssize_t>(sizeof welcome) || welcome.magic != kGreetingMagic ||
      came.descriptors.size() != 1 || came.truncated) {
    return fail(Errc::kProtocol, "not an answer to our greeting");
  }
  return usable_bell(socket, came.descriptors.front());
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
  return came.descriptors.front().take();
}

}  // namespace weft::rpc
