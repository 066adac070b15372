#include "layout/client_network.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>

#include "layout/wildcard.h"

namespace weft::layout {
namespace {

constexpr std::size_t kV4Bytes = 4;
constexpr std::size_t kV6Bytes = 16;
constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

std::uint32_t all_bits(const NetAddress& address) {
  return 8 * static_cast<std::uint32_t>(address.v6 ? kV6Bytes : kV4Bytes);
}

NetAddress first_bits(NetAddress address, std::uint32_t bits) {
  for (std::size_t i = 0; i < address.ip.size(); ++i) {
    const std::uint32_t left = bits > 8 * i ? bits - static_cast<std::uint32_t>(8 * i) : 0;
    if (left < 8) address.ip[i] &= static_cast<std::uint8_t>(0xff00U >> left);
  }
  address.port = 0;
  return address;
}

bool no_address(const NetAddress& address) { return address.port == 0 || is_wildcard(address); }

Result<> check_one(const ClientNetwork& network) {
  if (network.name.empty() || network.name.size() > kMaxNetworkNameBytes) {
    return fail(Errc::kInvalid,
                fmt::format("a network needs a name of at most {} bytes", kMaxNetworkNameBytes));
  }
  const auto wrong = [&network](std::string_view what) {
    return fail(Errc::kInvalid, fmt::format("network '{}' {}", network.name, what));
  };
  if (network.addresses.empty() || network.addresses.size() > kMaxNetworkAddresses) {
    return wrong(fmt::format("needs 1 to {} addresses", kMaxNetworkAddresses));
  }
  if (network.clients.empty() || network.clients.size() > kMaxClientRanges) {
    return wrong(fmt::format("needs 1 to {} ranges of clients", kMaxClientRanges));
  }
  if (std::ranges::any_of(network.addresses,
                          [](const DeviceAddress& one) { return no_address(one.address); })) {
    return wrong("has an address that clients cannot connect to");
  }
  if (ambiguous(network.addresses)) return wrong("has an address both for TCP and for RDMA");
  return {};
}

}  // namespace

Result<AddressRange> parse_range(std::string_view text) {
  const auto wrong = [text](std::string_view what) {
    return fail(Errc::kInvalid, fmt::format("'{}' {}", text.substr(0, 64), what));
  };
  const std::size_t slash = text.find('/');
  auto start = make_address(text.substr(0, slash), 0);
  if (!start) return wrong("is not a range of addresses, like 192.0.2.0/24 or 2001:db8::/32");
  AddressRange range{.start = *start, .bits = all_bits(*start)};
  if (slash == std::string_view::npos) return range;
  const std::string_view digits = text.substr(slash + 1);
  const char* const last = digits.data() + digits.size();
  std::uint32_t bits = 0;
  const auto [end, error] = std::from_chars(digits.data(), last, bits);
  if (error != std::errc{} || end != last || bits > range.bits) {
    return wrong(fmt::format("needs a number of bits up to {} behind the '/'", range.bits));
  }
  range.bits = bits;
  if (const NetAddress first = first_bits(*start, bits); first != *start) {
    return wrong(fmt::format("has bits behind its {}: {}/{} would do", bits, ip_text(first), bits));
  }
  return range;
}

std::string to_string(const AddressRange& range) {
  return fmt::format("{}/{}", ip_text(range.start), range.bits);
}

bool contains(const AddressRange& range, const NetAddress& address) {
  return range.start.v6 == address.v6 && first_bits(address, range.bits) == range.start;
}

NetAddress unmapped(const NetAddress& address) {
  if (!address.v6 || !std::equal(kMapped.begin(), kMapped.end(), address.ip.begin())) {
    return address;
  }
  NetAddress plain;
  plain.port = address.port;
  std::copy_n(address.ip.begin() + kMapped.size(), kV4Bytes, plain.ip.begin());
  return plain;
}

bool ambiguous(std::span<const DeviceAddress> addresses) {
  const auto rdma = only(Transport::kRdma, addresses);
  return std::ranges::any_of(only(Transport::kTcp, addresses), [&](const NetAddress& tcp) {
    return std::ranges::find(rdma, tcp) != rdma.end();
  });
}

Result<> validate(std::span<const ClientNetwork> networks) {
  if (networks.size() > kMaxNetworks) {
    return fail(Errc::kInvalid, fmt::format("at most {} networks", kMaxNetworks));
  }
  for (std::size_t i = 0; i < networks.size(); ++i) {
    const ClientNetwork& network = networks[i];
    if (auto good = check_one(network); !good) return good;
    for (const ClientNetwork& other : networks.first(i)) {
      if (other.name == network.name) {
        return fail(Errc::kInvalid, fmt::format("two networks are named '{}'", network.name));
      }
      for (const AddressRange& range : network.clients) {
        if (std::ranges::find(other.clients, range) == other.clients.end()) continue;
        return fail(Errc::kInvalid, fmt::format("clients {} are of two networks, '{}' and '{}'",
                                                to_string(range), other.name, network.name));
      }
    }
  }
  return {};
}

void put_networks(xdr::Encoder& out, const std::vector<ClientNetwork>& networks) {
  out.u32(static_cast<std::uint32_t>(networks.size()));
  for (const ClientNetwork& network : networks) xdr::put(out, network);
}

std::vector<ClientNetwork> get_networks(xdr::Decoder& in) {
  std::vector<ClientNetwork> networks;
  const std::uint32_t count = in.count(kMaxNetworks);
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) xdr::get(in, networks.emplace_back());
  return networks;
}

const ClientNetwork* network_for(std::span<const ClientNetwork> networks,
                                 const std::optional<NetAddress>& client) {
  if (!client) return nullptr;
  const NetAddress address = unmapped(*client);
  const ClientNetwork* best = nullptr;
  std::uint32_t most = 0;
  for (const ClientNetwork& network : networks) {
    for (const AddressRange& range : network.clients) {
      if (!contains(range, address) || (best != nullptr && range.bits <= most)) continue;
      best = &network;
      most = range.bits;
    }
  }
  return best;
}

}  // namespace weft::layout
