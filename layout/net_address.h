// Network addresses of data servers, and their form in a layout's device: netaddr4 (RFC 5665).
//
// A universal address is "192.0.2.7.8.1" (netid tcp; the port is 8 * 256 + 1) or
// "2001:db8::7.8.1" (netid tcp6). The client tells transports apart by netid: rdma and rdma6 are
// those of RPC over RDMA (RFC 8166 section 10.1).
//
// Threading: plain values and pure functions.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/base/error.h"
#include "rpc/xdr/describe.h"

namespace weft::layout {

struct NetAddress {
  bool v6 = false;
  std::array<std::uint8_t, 16> ip{};  // network order; an IPv4 address in the first four bytes
  std::uint16_t port = 0;

  friend auto operator<=>(const NetAddress&, const NetAddress&) = default;
};

// From a numeric address ("192.0.2.7", "2001:db8::7") and a port. kInvalid otherwise.
[[nodiscard]] Result<NetAddress> make_address(std::string_view numeric_ip, std::uint16_t port);

// "192.0.2.7" and "192.0.2.7:2049", "[2001:db8::7]:2049".
[[nodiscard]] std::string ip_text(const NetAddress& address);
[[nodiscard]] std::string to_string(const NetAddress& address);
// The inverse of to_string. kInvalid otherwise.
[[nodiscard]] Result<NetAddress> parse_address(std::string_view text);

[[nodiscard]] std::string_view netid(const NetAddress& address);
[[nodiscard]] std::string universal_address(const NetAddress& address);
// kInvalid for a netid other than tcp and tcp6 or a malformed address.
[[nodiscard]] Result<NetAddress> parse_universal(std::string_view netid, std::string_view uaddr);

// netaddr4. Only TCP addresses are read.
template <class Io>
void describe(Io& io, NetAddress& r) {
  std::string id(netid(r));
  std::string universal = universal_address(r);
  io("netid", id, at_most(16));
  io("address", universal, at_most(54));  // of IPv6, and ".255.255"
  if constexpr (Io::kReads) {
    const auto read = parse_universal(id, universal);
    io.check(read.has_value());
    if (read) r = *read;
  }
}

enum class Transport : std::uint8_t { kTcp, kRdma };

// Where clients reach a data server, and how. An address alone is TCP's.
struct DeviceAddress {
  DeviceAddress() = default;
  DeviceAddress(NetAddress to, Transport by = Transport::kTcp) : address(to), transport(by) {}

  NetAddress address;
  Transport transport = Transport::kTcp;

  friend auto operator<=>(const DeviceAddress&, const DeviceAddress&) = default;
};

// "192.0.2.7:2049", "rdma://192.0.2.7:20049".
[[nodiscard]] std::string to_string(const DeviceAddress& address);
[[nodiscard]] std::string_view netid(const DeviceAddress& address);
// kInvalid for a netid other than tcp, tcp6, rdma and rdma6 or a malformed address.
[[nodiscard]] Result<DeviceAddress> parse_device_address(std::string_view netid,
                                                         std::string_view uaddr);
// Those of one transport, in their order.
[[nodiscard]] std::vector<NetAddress> only(Transport transport,
                                           std::span<const DeviceAddress> addresses);

// netaddr4.
template <class Io>
void describe(Io& io, DeviceAddress& r) {
  std::string id(netid(r));
  std::string universal = universal_address(r.address);
  io("netid", id, at_most(16));
  io("address", universal, at_most(54));
  if constexpr (Io::kReads) {
    const auto read = parse_device_address(id, universal);
    io.check(read.has_value());
    if (read) r = *read;
  }
}

}  // namespace weft::layout
