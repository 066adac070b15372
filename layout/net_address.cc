#include "layout/net_address.h"

#include <arpa/inet.h>

#include <charconv>

namespace weft::layout {
namespace {

// The digits of `text` as a number up to `max`; nothing else may be in it.
template <class T>
bool parse_number(std::string_view text, T max, T& value) {
  if (text.empty() || text.size() > 5) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() && value <= max;
}

}  // namespace

Result<NetAddress> make_address(std::string_view numeric_ip, std::uint16_t port) {
  const std::string ip(numeric_ip);
  NetAddress address;
  address.port = port;
  address.v6 = ip.find(':') != std::string::npos;
  if (ip.size() >= INET6_ADDRSTRLEN ||
      inet_pton(address.v6 ? AF_INET6 : AF_INET, ip.c_str(), address.ip.data()) != 1) {
    return fail(Errc::kInvalid, "not a numeric IP address: " + ip.substr(0, INET6_ADDRSTRLEN));
  }
  return address;
}

std::string ip_text(const NetAddress& address) {
  char text[INET6_ADDRSTRLEN];
  inet_ntop(address.v6 ? AF_INET6 : AF_INET, address.ip.data(), text, sizeof text);
  return text;
}

std::string to_string(const NetAddress& address) {
  const std::string ip = ip_text(address);
  return (address.v6 ? "[" + ip + "]" : ip) + ":" + std::to_string(address.port);
}

Result<NetAddress> parse_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  unsigned port = 0;
  if (colon == std::string_view::npos || !parse_number(text.substr(colon + 1), 65535u, port)) {
    return fail(Errc::kInvalid, "not address:port: " + std::string(text.substr(0, 64)));
  }
  std::string_view ip = text.substr(0, colon);
  const bool bracketed = ip.size() >= 2 && ip.front() == '[' && ip.back() == ']';
  if (bracketed) ip = ip.substr(1, ip.size() - 2);
  auto address = make_address(ip, static_cast<std::uint16_t>(port));
  if (address && address->v6 != bracketed) {
    return fail(Errc::kInvalid, "an IPv6 address is written [address]:port");
  }
  return address;
}

std::string_view netid(const NetAddress& address) { return address.v6 ? "tcp6" : "tcp"; }

std::string universal_address(const NetAddress& address) {
  return ip_text(address) + "." + std::to_string(address.port >> 8) + "." +
         std::to_string(address.port & 0xff);
}

Result<NetAddress> parse_universal(std::string_view netid, std::string_view uaddr) {
  if (netid != "tcp" && netid != "tcp6") return fail(Errc::kInvalid, "netid is not tcp or tcp6");
  const std::size_t low_dot = uaddr.rfind('.');
  if (low_dot == std::string_view::npos || low_dot == 0) {
    return fail(Errc::kInvalid, "universal address without a port");
  }
  const std::size_t high_dot = uaddr.rfind('.', low_dot - 1);
  unsigned high = 0;
  unsigned low = 0;
  if (high_dot == std::string_view::npos ||
      !parse_number(uaddr.substr(high_dot + 1, low_dot - high_dot - 1), 255u, high) ||
      !parse_number(uaddr.substr(low_dot + 1), 255u, low)) {
    return fail(Errc::kInvalid, "universal address with a malformed port");
  }
  auto address =
      make_address(uaddr.substr(0, high_dot), static_cast<std::uint16_t>(high << 8 | low));
  if (address && address->v6 != (netid == "tcp6")) {
    return fail(Errc::kInvalid, "netid and address family differ");
  }
  return address;
}

std::string to_string(const DeviceAddress& address) {
  return (address.transport == Transport::kRdma ? "rdma://" : "") + to_string(address.address);
}

std::string_view netid(const DeviceAddress& address) {
  if (address.transport == Transport::kTcp) return netid(address.address);
  return address.address.v6 ? "rdma6" : "rdma";
}

// Netids of RDMA are those of TCP in all but the name.
Result<DeviceAddress> parse_device_address(std::string_view netid, std::string_view uaddr) {
  const bool rdma = netid == "rdma" || netid == "rdma6";
  const std::string_view by_tcp = netid == "rdma" ? "tcp" : "tcp6";
  auto address = parse_universal(rdma ? by_tcp : netid, uaddr);
  if (!address) return pass(address);
  return DeviceAddress(*address, rdma ? Transport::kRdma : Transport::kTcp);
}

std::vector<NetAddress> only(Transport transport, std::span<const DeviceAddress> addresses) {
  std::vector<NetAddress> chosen;
  for (const DeviceAddress& address : addresses) {
    if (address.transport == transport) chosen.push_back(address.address);
  }
  return chosen;
}

}  // namespace weft::layout
