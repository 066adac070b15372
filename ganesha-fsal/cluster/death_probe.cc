#include "ganesha-fsal/cluster/death_probe.h"

#include <netinet/in.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace weft::mds {
namespace {

constexpr std::chrono::milliseconds kPatience{200};
constexpr std::chrono::seconds kAskAgain{1};  // where nothing was refused
constexpr std::size_t kMostSilent = 2;        // asked in vain in one turn

int start_connect(int socket, const layout::NetAddress& address) {
  if (address.v6) {
    sockaddr_in6 to{};
    to.sin6_family = AF_INET6;
    to.sin6_port = htons(address.port);
    std::memcpy(&to.sin6_addr, address.ip.data(), sizeof(to.sin6_addr));
    return ::connect(socket, reinterpret_cast<const sockaddr*>(&to), sizeof(to));
  }
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(address.port);
  std::memcpy(&to.sin_addr, address.ip.data(), sizeof(to.sin_addr));
  return ::connect(socket, reinterpret_cast<const sockaddr*>(&to), sizeof(to));
}

bool refuses(const layout::NetAddress& address, std::chrono::milliseconds patience) {
  const int family = address.v6 ? AF_INET6 : AF_INET;
  const int socket = ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket < 0) return false;
  int error = start_connect(socket, address) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    pollfd ready{.fd = socket, .events = POLLOUT, .revents = 0};
    if (::poll(&ready, 1, static_cast<int>(patience.count())) == 1) {
      socklen_t length = sizeof(error);
      if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
    }
  }
  ::close(socket);
  return error == ECONNREFUSED;
}

}  // namespace

bool refuses(std::span<const layout::NetAddress> addresses, std::chrono::milliseconds patience) {
  return !addresses.empty() && std::ranges::all_of(addresses, [&](const auto& address) {
    return refuses(address, patience);
  });
}

void DeathProbe::tick() {
  const auto now = clock_.now();
  std::size_t silent = 0;
  auto all = registry_.lost();
  std::ranges::sort(all, {}, [this](const auto& lost) { return ask_again_[lost.ds_id]; });
  for (const Registry::Lost& lost : all) {
    auto& again = ask_again_[lost.ds_id];
    if (again > now || silent == kMostSilent) break;
    if (!refuses(lost.addresses, kPatience)) {
      ++silent;
      again = clock_.now() + kAskAgain;
    } else if (registry_.found_dead(lost.ds_id, lost.connection)) {
      spdlog::warn("event=data_server_dead ds={}", lost.ds_id);
      close_(lost.ds_id);
    }
  }
}

}  // namespace weft::mds
