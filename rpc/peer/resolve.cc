#include "rpc/peer/resolve.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

namespace weft::rpc::peer {
namespace {

constexpr std::size_t kMaxName = 253;  // RFC 1035 section 2.3.4, without the last dot

struct NamedAddress {
  std::string name;
  std::uint16_t port = 0;
};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// What ends in a number is meant to be numeric (RFC 1123 section 2.1), and is not.
bool is_name(std::string_view text) {
  const auto fits = [](char c) {
    return is_letter(c) || is_digit(c) || c == '-' || c == '.' || c == '_';
  };
  if (text.empty() || text.size() > kMaxName || !std::ranges::all_of(text, fits)) return false;
  const std::string_view last = text.substr(text.rfind('.') + 1);
  return !last.empty() && !std::ranges::all_of(last, is_digit);
}

std::optional<NamedAddress> split(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || !is_name(text.substr(0, colon))) return std::nullopt;
  NamedAddress address{.name = std::string(text.substr(0, colon))};
  const std::string_view digits = text.substr(colon + 1);
  const char* const last = digits.data() + digits.size();
  const auto [end, error] = std::from_chars(digits.data(), last, address.port);
  if (error != std::errc{} || end != last) return std::nullopt;
  return address;
}

std::unexpected<Error> malformed(std::string_view text) {
  return fail(Errc::kInvalid,
              fmt::format("'{}' is not an address or a name with a port, like 192.0.2.1:2051, "
                          "[2001:db8::1]:2051 or host:2051",
                          text.substr(0, kMaxName + 6)));
}

bool is_loopback(const layout::NetAddress& address) {
  if (!address.v6) return address.ip[0] == 127;
  return std::all_of(address.ip.begin(), address.ip.end() - 1,
                     [](auto byte) { return byte == 0; }) &&
         address.ip.back() == 1;
}

layout::NetAddress from_sockaddr(const addrinfo& found, std::uint16_t port) {
  layout::NetAddress address;
  address.port = port;
  address.v6 = found.ai_family == AF_INET6;
  if (address.v6) {
    sockaddr_in6 in6{};
    std::memcpy(&in6, found.ai_addr, sizeof in6);
    std::memcpy(address.ip.data(), &in6.sin6_addr, 16);
  } else {
    sockaddr_in in{};
    std::memcpy(&in, found.ai_addr, sizeof in);
    std::memcpy(address.ip.data(), &in.sin_addr, 4);
  }
  return address;
}

using Found = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

// `text` is what is told of.
Result<Found> ask(const std::string& name, std::string_view text) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int error = ::getaddrinfo(name.c_str(), nullptr, &wanted, &list); error != 0) {
    const std::string why =
        error == EAI_SYSTEM ? std::generic_category().message(errno) : ::gai_strerror(error);
    return fail(Errc::kUnreachable, fmt::format("'{}' cannot be looked up here: {}", text, why));
  }
  return Found(list, &::freeaddrinfo);
}

}  // namespace

Result<> check_address(std::string_view text) {
  if (layout::parse_address(text) || split(text)) return {};
  return malformed(text);
}

Result<layout::NetAddress> resolve_address(std::string_view text) {
  if (auto numeric = layout::parse_address(text)) return numeric;
  const auto named = split(text);
  if (!named) return malformed(text);
  auto list = ask(named->name, text);
  if (!list) return pass(list);
  for (const addrinfo* found = list->get(); found != nullptr; found = found->ai_next) {
    if (found->ai_family != AF_INET && found->ai_family != AF_INET6) continue;
    const layout::NetAddress address = from_sockaddr(*found, named->port);
    if (is_loopback(address) && named->name != "localhost") {
      return fail(Errc::kInvalid,
                  fmt::format("'{}' is {} here, which others cannot reach: see /etc/hosts", text,
                              layout::ip_text(address)));
    }
    return address;
  }
  return fail(Errc::kInvalid, fmt::format("'{}' has no address here", text));
}

Result<> look_up(std::string_view name) {
  if (auto found = ask(std::string(name), name); !found) return pass(found);
  return {};
}

}  // namespace weft::rpc::peer
