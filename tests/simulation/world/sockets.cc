// The socket calls: streams of IPv4, and sockets of the Unix family. No other family is there.
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "tests/simulation/world/local_sockets.h"
#include "tests/simulation/world/real.h"
#include "tests/simulation/world/scheduler.h"
#include "tests/simulation/world/tcp.h"

using namespace weft;  // NOLINT: what follows has names of the C library

namespace {

using sim::tcp::Address;
using sim::tcp::Socket;

int fail(int error) {
  errno = error;
  return -1;
}

std::shared_ptr<Socket> socket_of(int fd) {
  auto found = sim::find_as<Socket>(fd);
  if (found == nullptr) errno = sim::find(fd) == nullptr ? EBADF : ENOTSOCK;
  return found;
}

void note_call(int fd, long result) {
  sim::note((static_cast<std::uint64_t>(static_cast<unsigned>(fd)) << 32) ^
            static_cast<std::uint64_t>(result));
}

template <class T>
T noted(int fd, T result) {
  note_call(fd, static_cast<long>(result));
  return sim::to_result(result);
}

bool read_address(const sockaddr* from, socklen_t size, Address& out) {
  if (size < sizeof(sockaddr_in) || from->sa_family != AF_INET) return false;
  sockaddr_in in{};
  std::memcpy(&in, from, sizeof in);
  out = {ntohl(in.sin_addr.s_addr), ntohs(in.sin_port)};
  return true;
}

void write_address(const Address& address, sockaddr* to, socklen_t* size) {
  if (to == nullptr || size == nullptr) return;
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_addr.s_addr = htonl(address.ip);
  out.sin_port = htons(address.port);
  std::memcpy(to, &out, std::min<std::size_t>(*size, sizeof out));
  *size = sizeof out;
}

std::string read_path(const sockaddr* from, socklen_t size) {
  sockaddr_un at{};
  std::memcpy(&at, from, std::min<std::size_t>(size, sizeof at));
  return {at.sun_path, ::strnlen(at.sun_path, sizeof at.sun_path)};
}

template <class Any>
bool waits(const Any& socket, int flags) {
  return !socket.nonblocking && (flags & MSG_DONTWAIT) == 0;
}

ssize_t receive(int fd, const iovec* into, int count, int flags) {
  sim::preempt();
  if (const auto local = sim::find_as<sim::LocalSocket>(fd); local != nullptr) {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(into);
    message.msg_iovlen = static_cast<std::size_t>(count);
    return noted(fd, local->receive(message, waits(*local, flags)));
  }
  const auto socket = socket_of(fd);
  if (socket == nullptr) return -1;
  return noted(fd, socket->receive(into, count, (flags & MSG_PEEK) != 0, waits(*socket, flags)));
}

ssize_t transmit(int fd, const iovec* from, int count, int flags) {
  sim::preempt();
  if (const auto local = sim::find_as<sim::LocalSocket>(fd); local != nullptr) {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(from);
    message.msg_iovlen = static_cast<std::size_t>(count);
    return noted(fd, local->send(message, waits(*local, flags)));
  }
  const auto socket = socket_of(fd);
  if (socket == nullptr) return -1;
  return noted(fd, socket->send(from, count, waits(*socket, flags)));
}

ssize_t receive_message(sim::LocalSocket& socket, msghdr& message, int flags) {
  sim::preempt();
  return sim::to_result(socket.receive(message, waits(socket, flags)));
}
ssize_t send_message(sim::LocalSocket& socket, const msghdr& message, int flags) {
  sim::preempt();
  return sim::to_result(socket.send(message, waits(socket, flags)));
}

// The next connection, waited for if the listener blocks.
template <class Any>
int take_next(Any& listener, std::shared_ptr<Any>& taken) {
  int result = listener.accept(taken);
  while (result == -EAGAIN && !listener.nonblocking) {
    static_cast<void>(sim::wait_ready(listener, EPOLLIN));
    result = listener.accept(taken);
  }
  return result;
}

int accept_local(int fd, sim::LocalSocket& listener, socklen_t* size, int flags) {
  std::shared_ptr<sim::LocalSocket> taken;
  if (const int result = take_next(listener, taken); result < 0) return noted(fd, result);
  if (size != nullptr) *size = sizeof(sa_family_t);  // of no name
  taken->nonblocking = (flags & SOCK_NONBLOCK) != 0;
  return noted(fd, sim::install(std::move(taken)));
}

int accept_any(int fd, sockaddr* from, socklen_t* size, int flags) {
  sim::preempt();
  if (const auto local = sim::find_as<sim::LocalSocket>(fd); local != nullptr) {
    return accept_local(fd, *local, size, flags);
  }
  const auto listener = socket_of(fd);
  if (listener == nullptr) return -1;
  std::shared_ptr<Socket> taken;
  const int result = take_next(*listener, taken);
  if (result < 0) return noted(fd, result);
  Address peer;
  if (taken->peer(peer) == 0) write_address(peer, from, size);
  taken->nonblocking = (flags & SOCK_NONBLOCK) != 0;
  return noted(fd, sim::install(std::move(taken)));
}

int connect_any(const std::shared_ptr<Socket>& socket, const Address& to) {
  const int result = socket->connect(to);
  if (result != -EINPROGRESS || socket->nonblocking) return result;
  static_cast<void>(sim::wait_ready(*socket, EPOLLOUT));
  int error = 0;
  static_cast<void>(socket->option(SOL_SOCKET, SO_ERROR, error));
  return -error;
}

}  // namespace

extern "C" {

int socket(int family, int type, int protocol) noexcept {
  if (!sim::active()) return WEFT_REAL(socket)(family, type, protocol);
  if (family == AF_UNIX) {
    auto local = std::make_shared<sim::LocalSocket>(type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC));
    local->nonblocking = (type & SOCK_NONBLOCK) != 0;
    return sim::install(std::move(local));
  }
  if (family != AF_INET) return fail(EAFNOSUPPORT);
  if ((type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) != SOCK_STREAM) return fail(EPROTONOSUPPORT);
  auto made = std::make_shared<Socket>();
  made->nonblocking = (type & SOCK_NONBLOCK) != 0;
  return sim::install(std::move(made));
}
int socketpair(int family, int type, int protocol, int ends[2]) noexcept {
  if (!sim::active()) return WEFT_REAL(socketpair)(family, type, protocol, ends);
  if (family != AF_UNIX) return fail(EAFNOSUPPORT);
  std::shared_ptr<sim::LocalSocket> made[2];
  for (int i = 0; i < 2; ++i) {
    made[i] = std::make_shared<sim::LocalSocket>(type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC));
    made[i]->nonblocking = (type & SOCK_NONBLOCK) != 0;
    ends[i] = sim::install(made[i]);
  }
  sim::LocalSocket::pair(*made[0], *made[1]);
  return 0;
}

int bind(int fd, const sockaddr* address, socklen_t size) noexcept {
  if (!sim::active()) return WEFT_REAL(bind)(fd, address, size);
  if (const auto local = sim::find_as<sim::LocalSocket>(fd); local != nullptr) {
    return noted(fd, local->bind(read_path(address, size)));
  }
  const auto found = socket_of(fd);
  Address to;
  if (found == nullptr) return -1;
  if (!read_address(address, size, to)) return fail(EAFNOSUPPORT);
  return noted(fd, found->bind(to));
}
int listen(int fd, int backlog) noexcept {
  if (!sim::active()) return WEFT_REAL(listen)(fd, backlog);
  if (const auto local = sim::find_as<sim::LocalSocket>(fd); local != nullptr) {
    return noted(fd, local->listen(backlog));
  }
  const auto found = socket_of(fd);
  return found == nullptr ? -1 : noted(fd, found->listen(backlog));
}
int accept(int fd, sockaddr* __restrict from, socklen_t* __restrict size) {
  if (!sim::active()) return WEFT_REAL(accept)(fd, from, size);
  return accept_any(fd, from, size, 0);
}
int accept4(int fd, sockaddr* __restrict from, socklen_t* __restrict size, int flags) {
  if (!sim::active()) return WEFT_REAL(accept4)(fd, from, size, flags);
  return accept_any(fd, from, size, flags);
}
int connect(int fd, const sockaddr* address, socklen_t size) {
  if (!sim::active()) return WEFT_REAL(connect)(fd, address, size);
  sim::preempt();
  if (const auto local = sim::find_as<sim::LocalSocket>(fd); local != nullptr) {
    return noted(fd, local->connect(read_path(address, size)));
  }
  const auto found = socket_of(fd);
  Address to;
  if (found == nullptr) return -1;
  if (!read_address(address, size, to)) return fail(EAFNOSUPPORT);
  return noted(fd, connect_any(found, to));
}
int shutdown(int fd, int how) noexcept {
  if (!sim::active()) return WEFT_REAL(shutdown)(fd, how);
  if (const auto local = sim::find_as<sim::LocalSocket>(fd); local != nullptr) {
    return noted(fd, local->shutdown());
  }
  const auto found = socket_of(fd);
  return found == nullptr ? -1 : noted(fd, found->shutdown(how));
}

ssize_t recv(int fd, void* into, size_t size, int flags) {
  if (!sim::active()) return WEFT_REAL(recv)(fd, into, size, flags);
  const iovec one{into, size};
  return receive(fd, &one, 1, flags);
}
ssize_t __recv_chk(int fd, void* into, size_t size, size_t /*room*/, int flags) {
  return recv(fd, into, size, flags);
}
ssize_t recvfrom(int fd, void* __restrict into, size_t size, int flags, sockaddr* __restrict from,
                 socklen_t* __restrict from_size) {
  if (!sim::active()) return WEFT_REAL(recvfrom)(fd, into, size, flags, from, from_size);
  if (from_size != nullptr) *from_size = 0;  // as for any stream
  return recv(fd, into, size, flags);
}
ssize_t __recvfrom_chk(int fd, void* __restrict into, size_t size, size_t /*room*/, int flags,
                       sockaddr* __restrict from, socklen_t* __restrict from_size) {
  return recvfrom(fd, into, size, flags, from, from_size);
}
ssize_t recvmsg(int fd, msghdr* message, int flags) {
  if (!sim::active()) return WEFT_REAL(recvmsg)(fd, message, flags);
  if (const auto local = sim::find_as<sim::LocalSocket>(fd); local != nullptr) {
    return receive_message(*local, *message, flags);
  }
  message->msg_namelen = 0;
  message->msg_controllen = 0;
  message->msg_flags = 0;
  return receive(fd, message->msg_iov, static_cast<int>(message->msg_iovlen), flags);
}
ssize_t send(int fd, const void* from, size_t size, int flags) {
  if (!sim::active()) return WEFT_REAL(send)(fd, from, size, flags);
  const iovec one{const_cast<void*>(from), size};
  return transmit(fd, &one, 1, flags);
}
ssize_t sendto(int fd, const void* from, size_t size, int flags, const sockaddr* to,
               socklen_t to_size) {
  if (!sim::active()) return WEFT_REAL(sendto)(fd, from, size, flags, to, to_size);
  return send(fd, from, size, flags);
}
ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  if (!sim::active()) return WEFT_REAL(sendmsg)(fd, message, flags);
  if (const auto local = sim::find_as<sim::LocalSocket>(fd); local != nullptr) {
    return send_message(*local, *message, flags);
  }
  return transmit(fd, message->msg_iov, static_cast<int>(message->msg_iovlen), flags);
}

int getsockname(int fd, sockaddr* __restrict to, socklen_t* __restrict size) noexcept {
  if (!sim::active()) return WEFT_REAL(getsockname)(fd, to, size);
  if (sim::find_as<sim::LocalSocket>(fd) != nullptr) {
    *size = sizeof(sa_family_t);
    return 0;
  }
  const auto found = socket_of(fd);
  if (found == nullptr) return -1;
  write_address(found->local(), to, size);
  return 0;
}
int getpeername(int fd, sockaddr* __restrict to, socklen_t* __restrict size) noexcept {
  if (!sim::active()) return WEFT_REAL(getpeername)(fd, to, size);
  const auto found = socket_of(fd);
  if (found == nullptr) return -1;
  Address peer;
  if (const int failed = found->peer(peer); failed < 0) return fail(-failed);
  write_address(peer, to, size);
  return 0;
}
int getsockopt(int fd, int level, int name, void* __restrict value,
               socklen_t* __restrict size) noexcept {
  if (!sim::active()) return WEFT_REAL(getsockopt)(fd, level, name, value, size);
  if (const auto local = sim::find_as<sim::LocalSocket>(fd); local != nullptr) {
    *size = static_cast<socklen_t>(local->option(name, value, *size));
    return 0;
  }
  const auto found = socket_of(fd);
  if (found == nullptr) return -1;
  int number = 0;
  if (const int failed = found->option(level, name, number); failed < 0) return fail(-failed);
  // Structures (TCP_INFO) are answered with zeros behind it.
  std::memset(value, 0, *size);
  std::memcpy(value, &number, std::min<std::size_t>(*size, sizeof number));
  return 0;
}
int setsockopt(int fd, int level, int name, const void* value, socklen_t size) noexcept {
  if (!sim::active()) return WEFT_REAL(setsockopt)(fd, level, name, value, size);
  if (sim::find_as<sim::LocalSocket>(fd) != nullptr) return 0;
  const auto found = socket_of(fd);
  if (found == nullptr) return -1;
  return sim::to_result(found->set_option(level, name, value, size));
}

}  // extern "C"
