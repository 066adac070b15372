#include "rpc/base/listen_trouble.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace weft {

std::string listen_trouble(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos) return "";
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo wanted{};
  wanted.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), address.c_str() + colon + 1, &wanted, &found) != 0) return "";
  int error = 0;
  const int tried = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  constexpr int kYes = 1;
  if (tried < 0 || ::setsockopt(tried, SOL_SOCKET, SO_REUSEADDR, &kYes, sizeof kYes) != 0 ||
      ::bind(tried, found->ai_addr, found->ai_addrlen) != 0) {
    error = errno;
  }
  if (tried >= 0) ::close(tried);
  ::freeaddrinfo(found);
  return error == 0 ? "" : std::generic_category().message(error);
}

}  // namespace weft
