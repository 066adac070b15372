#include "tools/load/tcp_baseline.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <vector>

#include "rpc/base/buffer.h"

namespace weft::load {
namespace {

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

const sockaddr* generic(const sockaddr_in& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

// Block after block of `bytes`, round and round.
void send_until_gone(int socket, const std::vector<std::byte>& bytes, std::size_t block) {
  std::size_t at = 0;
  for (;;) {
    const std::size_t size = std::min(block - at % block, bytes.size() - at);
    const ssize_t sent = ::send(socket, bytes.data() + at, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;
    at = (at + static_cast<std::size_t>(sent)) % bytes.size();
  }
}

}  // namespace

Result<> tcp_serve(std::uint16_t port, std::size_t block, std::size_t memory,
                   unsigned connections) {
  if (block == 0 || memory < block) return fail(Errc::kInvalid, "memory of less than a block");
  const OwnedFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const sockaddr_in address = loopback(port);
  if (::bind(listener.get(), generic(address), sizeof address) != 0) {
    return fail_errno(errno, "bind to 127.0.0.1:" + std::to_string(port));
  }
  if (::listen(listener.get(), 4) != 0) return fail_errno(errno, "listen");
  const std::vector<std::byte> bytes(memory, std::byte{0x5a});
  std::puts("ready");
  std::fflush(stdout);
  for (unsigned i = 0; i < connections; ++i) {
    const OwnedFd peer(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!peer) return fail_errno(errno, "accept");
    send_until_gone(peer.get(), bytes, block);
  }
  return {};
}

Result<TcpBaseline> tcp_read(std::uint16_t port, std::size_t block,
                             std::chrono::milliseconds duration) {
  const OwnedFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback(port);
  if (::connect(socket.get(), generic(address), sizeof address) != 0) {
    return fail_errno(errno, "connect to 127.0.0.1:" + std::to_string(port));
  }
  std::vector<std::byte> bytes(block);
  TcpBaseline out;
  const auto start = std::chrono::steady_clock::now();
  auto now = start;
  while (now - start < duration) {
    const ssize_t got = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
    if (got == 0) return fail(Errc::kClosed, "the sender closed the connection");
    if (got < 0) return fail_errno(errno, "recv");
    out.bytes += static_cast<std::uint64_t>(got);
    now = std::chrono::steady_clock::now();
  }
  out.seconds = std::chrono::duration<double>(now - start).count();
  return out;
}

}  // namespace weft::load
