// Networks of clients: which addresses of a data server a client is told, by its own address.
//
// A data server without networks tells all clients the same addresses. One with networks tells a
// client those of the network whose range the client's address is in; of several such networks,
// those of the narrowest range. A client that is in none is told nothing: it gets no layouts of
// files on that data server, and is served through the metadata server.
//
// Threading: plain values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "layout/net_address.h"
#include "rpc/base/error.h"
#include "rpc/xdr/describe.h"

namespace weft::layout {

constexpr std::size_t kMaxNetworks = 8;          // of one data server
constexpr std::size_t kMaxNetworkAddresses = 8;  // of one network
constexpr std::size_t kMaxClientRanges = 32;     // of one network
constexpr std::size_t kMaxNetworkNameBytes = 64;

// Addresses whose first `bits` are those of `start`, which has no port and no other bits.
struct AddressRange {
  NetAddress start;
  std::uint32_t bits = 0;  // at most 32, or 128 of IPv6

  friend auto operator<=>(const AddressRange&, const AddressRange&) = default;
};

// "192.0.2.0/24", "2001:db8::/32", and "192.0.2.7" for one address. kInvalid otherwise, and when
// there are bits behind the range's own.
[[nodiscard]] Result<AddressRange> parse_range(std::string_view text);
[[nodiscard]] std::string to_string(const AddressRange& range);
[[nodiscard]] bool contains(const AddressRange& range, const NetAddress& address);

// An IPv4 address that came as one of IPv6 ("::ffff:192.0.2.7", RFC 4291 section 2.5.5.2) is
// IPv4's; others are as they are.
[[nodiscard]] NetAddress unmapped(const NetAddress& address);

struct ClientNetwork {
  std::string name;                      // for people
  std::vector<DeviceAddress> addresses;  // of the data server in it, preferred first
  std::vector<AddressRange> clients;

  friend bool operator==(const ClientNetwork&, const ClientNetwork&) = default;
};

// kInvalid: too many networks; one without a name or with another's; no or too many addresses or
// ranges; an address that nobody can connect to, or is for two transports; a range that is another
// network's as well.
[[nodiscard]] Result<> validate(std::span<const ClientNetwork> networks);

// The network that a client is told the addresses of; nullptr: none.
[[nodiscard]] const ClientNetwork* network_for(std::span<const ClientNetwork> networks,
                                               const std::optional<NetAddress>& client);

// Whether one address and port is for two transports, which a client's comparison does not tell
// apart.
[[nodiscard]] bool ambiguous(std::span<const DeviceAddress> addresses);

template <class Io>
void describe(Io& io, AddressRange& r) {
  io("start", r.start);
  io("bits", r.bits);
  if constexpr (Io::kReads) {
    const auto read = parse_range(ip_text(r.start) + "/" + std::to_string(r.bits));
    io.check(read.has_value() && *read == r);
  }
}
template <class Io>
void describe(Io& io, ClientNetwork& r) {
  io("name", r.name, at_most(kMaxNetworkNameBytes));
  io("addresses", r.addresses, at_most(kMaxNetworkAddresses));
  io("clients", r.clients, at_most(kMaxClientRanges));
}

// A list of them, as records have it.
void put_networks(xdr::Encoder& out, const std::vector<ClientNetwork>& networks);
[[nodiscard]] std::vector<ClientNetwork> get_networks(xdr::Decoder& in);

}  // namespace weft::layout
