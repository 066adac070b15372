#include "dataserver/main/addresses.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "layout/device_table.h"
#include "layout/wildcard.h"

namespace weft::ds {

namespace {

bool by_rdma(const layout::DeviceAddress& address) {
  return address.transport == layout::Transport::kRdma;
}

Result<layout::DeviceAddress> read_device_address(std::string_view text, ReadAddress read) {
  const bool rdma = text.starts_with(kRdmaScheme);
  auto address = rdma ? parse_rdma_address(text, read) : read(text);
  if (!address) return pass(address);
  return layout::DeviceAddress(*address, rdma ? layout::Transport::kRdma : layout::Transport::kTcp);
}

// A range of IPv4 addresses in the form of IPv6 (layout::unmapped()) as one of IPv4's, which is
// what clients' addresses are compared as.
layout::AddressRange unmapped(const layout::AddressRange& range) {
  constexpr std::uint32_t kMappedBits = 96;  // that all of them begin with
  const layout::NetAddress start = layout::unmapped(range.start);
  if (start.v6 == range.start.v6 || range.bits < kMappedBits) return range;
  return {start, range.bits - kMappedBits};
}

std::string network_text(const layout::ClientNetwork& network) {
  return fmt::format("{}: {} for {}", network.name, list_text(network.addresses),
                     list_text(network.clients));
}

// Whether clients get to that address by RDMA now. One at which the server does not listen itself
// (behind a translation, say) is reached while any is.
bool is_reached(const DsConfig& config, const std::vector<bool>& reachable,
                const layout::NetAddress& address) {
  const auto own = std::ranges::find(config.listen_rdma, address);
  if (own == config.listen_rdma.end()) {
    return std::ranges::find(reachable, true) != reachable.end();
  }
  const auto index = static_cast<std::size_t>(own - config.listen_rdma.begin());
  return index < reachable.size() && reachable[index];
}

std::vector<layout::NetAddress> told_rdma(const DsConfig& config,
                                          const std::vector<bool>& reachable) {
  const bool said = !config.advertise.empty() || !config.advertise_rdma.empty();
  std::vector<layout::NetAddress> told = said ? config.advertise_rdma : config.listen_rdma;
  std::erase_if(told, [&](const auto& one) { return !is_reached(config, reachable, one); });
  return told;
}

std::vector<layout::ClientNetwork> told_networks(const DsConfig& config,
                                                 const std::vector<bool>& reachable) {
  std::vector<layout::ClientNetwork> told = config.networks;
  for (layout::ClientNetwork& network : told) {
    std::erase_if(network.addresses, [&](const layout::DeviceAddress& one) {
      return by_rdma(one) && !is_reached(config, reachable, one.address);
    });
  }
  return told;
}

Result<> check_networks(const DsConfig& config) {
  if (auto good = layout::validate(config.networks); !good) return good;
  for (const layout::ClientNetwork& network : config.networks) {
    if (std::ranges::any_of(network.addresses, &by_rdma) && config.listen_rdma.empty()) {
      return fail(Errc::kInvalid, fmt::format("network '{}' tells of RDMA, and server.listen has "
                                              "none",
                                              network.name));
    }
    if (std::ranges::all_of(network.addresses, &by_rdma)) {
      return fail(Errc::kInvalid, fmt::format("network '{}' needs an address for TCP, too, for "
                                              "when RDMA does not get through",
                                              network.name));
    }
  }
  return {};
}

}  // namespace

TomlField device_addresses_field(std::string key, std::vector<layout::DeviceAddress>& into,
                                 ReadAddress read) {
  return {std::move(key), TomlField::Kind::kTextList,
          [&into, read](const TomlField::Value& value) -> Result<> {
            for (const std::string& text : value.list) {
              auto address = read_device_address(text, read);
              if (!address) return pass(address);
              into.push_back(*address);
            }
            return {};
          },
          [&into] { return list_text(into); }};
}

TomlField ranges_field(std::string key, std::vector<layout::AddressRange>& into) {
  return {std::move(key), TomlField::Kind::kTextList,
          [&into](const TomlField::Value& value) -> Result<> {
            for (const std::string& text : value.list) {
              auto range = layout::parse_range(text);
              if (!range) return pass(range);
              into.push_back(unmapped(*range));
            }
            return {};
          },
          [&into] { return list_text(into); }};
}

TomlField networks_field(std::vector<layout::ClientNetwork>& into,
                         std::function<std::vector<TomlField>(layout::ClientNetwork&)> fields) {
  return {.key = "network",
          .kind = TomlField::Kind::kTables,
          .set = {},
          .show =
              [&into] {
                std::string text;
                for (const layout::ClientNetwork& network : into) {
                  text += (text.empty() ? "" : "; ") + network_text(network);
                }
                return text;
              },
          .begin = [&into, fields = std::move(fields)] { return fields(into.emplace_back()); }};
}

Told told(const DsConfig& config, const std::vector<bool>& reachable) {
  const bool said = !config.advertise.empty() || !config.advertise_rdma.empty();
  return {.tcp = said ? config.advertise : config.listen,
          .rdma = told_rdma(config, reachable),
          .networks = told_networks(config, reachable)};
}

Result<> check_told(const DsConfig& config) {
  const auto [tcp, rdma, _] = told(config, std::vector<bool>(config.listen_rdma.size(), true));
  if (tcp.empty()) {
    return fail(Errc::kInvalid, "server.advertise needs an address for TCP, too");
  }
  if (!config.advertise_rdma.empty() && config.listen_rdma.empty()) {
    return fail(Errc::kInvalid, "server.advertise tells of RDMA, and server.listen has none");
  }
  if (tcp.size() + rdma.size() > layout::kMaxAddresses) {
    return fail(Errc::kInvalid, fmt::format("clients are told at most {} addresses: set "
                                            "server.advertise",
                                            layout::kMaxAddresses));
  }
  if (std::ranges::any_of(tcp, layout::is_wildcard) ||
      std::ranges::any_of(rdma, layout::is_wildcard)) {
    return fail(Errc::kInvalid,
                "clients cannot reach a wildcard address: set server.advertise to addresses they "
                "can reach");
  }
  const auto no_port = [](const auto& address) { return address.port == 0; };
  if (std::ranges::any_of(tcp, no_port) || std::ranges::any_of(rdma, no_port)) {
    return fail(Errc::kInvalid, "server.advertise needs ports that clients can reach");
  }
  if (std::ranges::any_of(rdma, [&](const auto& address) {
        return std::ranges::any_of(tcp, [&](const auto& one) { return one.port == address.port; });
      })) {
    return fail(Errc::kInvalid, "server.advertise has a port both for TCP and for RDMA");
  }
  return check_networks(config);
}

Result<> check_listen(const DsConfig& config) {
  for (const auto& address : config.listen_rdma) {
    if (std::ranges::any_of(config.listen,
                            [&](const auto& tcp) { return tcp.port == address.port; })) {
      return fail(Errc::kInvalid,
                  fmt::format("server.listen has port {} both for TCP and for RDMA", address.port));
    }
    if (address.port == 0 || layout::is_wildcard(address)) {  // its device may go, and come back
      return fail(Errc::kInvalid, "server.listen needs an address and a port for RDMA");
    }
  }
  if (config.listen.empty() && !config.listen_rdma.empty()) {
    return fail(Errc::kInvalid,
                "server.listen needs an address for TCP, too: other servers come by TCP, and so "
                "do clients without RDMA");
  }
  return {};
}

}  // namespace weft::ds
