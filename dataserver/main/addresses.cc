#include "dataserver/main/addresses.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "layout/device_table.h"
#include "rpc/transport/rdma/header.h"

namespace weft::ds {

namespace {

bool is_wildcard(const layout::NetAddress& address) {
  return std::ranges::all_of(address.ip, [](std::uint8_t byte) { return byte == 0; });
}

constexpr std::string_view kRdma = "rdma://";

Result<> set_addresses(const TomlField::Value& value, std::vector<layout::NetAddress>& by_tcp,
                       std::vector<layout::NetAddress>& rdma, ReadAddress read) {
  for (const std::string& text : value.list) {
    const bool by_rdma = text.starts_with(kRdma);
    auto address = by_rdma ? parse_rdma_address(text, read) : read(text);
    if (!address) return pass(address);
    (by_rdma ? rdma : by_tcp).push_back(*address);
  }
  return {};
}

}  // namespace

TomlField transports_field(std::string key, std::vector<layout::NetAddress>& by_tcp,
                           std::vector<layout::NetAddress>& rdma, ReadAddress read) {
  return {std::move(key), TomlField::Kind::kTextList,
          [&by_tcp, &rdma, read](const TomlField::Value& value) {
            return set_addresses(value, by_tcp, rdma, read);
          },
          [&by_tcp, &rdma] {
            std::string text = list_text(by_tcp);
            for (const auto& address : rdma) {
              text += (text.empty() ? "" : ", ") + std::string(kRdma) + to_string(address);
            }
            return text;
          }};
}

Result<layout::NetAddress> parse_rdma_address(std::string_view text, ReadAddress read) {
  if (!text.starts_with(kRdma)) return fail(Errc::kInvalid, "not an address for RDMA");
  text.remove_prefix(kRdma.size());
  const bool bracketed = text.starts_with('[') && text.ends_with(']');
  if (bracketed || !text.contains(':')) {
    return read(fmt::format("{}:{}", text, rpc::rdma::kPort));
  }
  return read(text);
}

std::vector<layout::NetAddress> told_tcp(const DsConfig& config) {
  const bool said = !config.advertise.empty() || !config.advertise_rdma.empty();
  return said ? config.advertise : config.listen;
}

std::vector<layout::NetAddress> told_rdma(const DsConfig& config, const std::vector<bool>& bound) {
  const bool any = std::ranges::find(bound, true) != bound.end();
  if (!config.advertise.empty() || !config.advertise_rdma.empty()) {
    return any ? config.advertise_rdma : std::vector<layout::NetAddress>{};
  }
  std::vector<layout::NetAddress> told;
  for (std::size_t i = 0; i < config.listen_rdma.size() && i < bound.size(); ++i) {
    if (bound[i]) told.push_back(config.listen_rdma[i]);
  }
  return told;
}

Result<> check_told(const DsConfig& config) {
  const auto told = told_tcp(config);
  const auto rdma = told_rdma(config, std::vector<bool>(config.listen_rdma.size(), true));
  if (told.empty()) {
    return fail(Errc::kInvalid, "server.advertise needs an address for TCP, too");
  }
  if (!config.advertise_rdma.empty() && config.listen_rdma.empty()) {
    return fail(Errc::kInvalid, "server.advertise tells of RDMA, and server.listen has none");
  }
  if (told.size() + rdma.size() > layout::kMaxAddresses) {
    return fail(Errc::kInvalid, fmt::format("clients are told at most {} addresses: set "
                                            "server.advertise",
                                            layout::kMaxAddresses));
  }
  if (std::ranges::any_of(told, is_wildcard) || std::ranges::any_of(rdma, is_wildcard)) {
    return fail(Errc::kInvalid,
                "clients cannot reach a wildcard address: set server.advertise to addresses they "
                "can reach");
  }
  const auto no_port = [](const auto& address) { return address.port == 0; };
  if (std::ranges::any_of(told, no_port) || std::ranges::any_of(rdma, no_port)) {
    return fail(Errc::kInvalid, "server.advertise needs ports that clients can reach");
  }
  if (std::ranges::any_of(rdma, [&](const auto& address) {
        return std::ranges::any_of(told, [&](const auto& tcp) { return tcp.port == address.port; });
      })) {
    return fail(Errc::kInvalid, "server.advertise has a port both for TCP and for RDMA");
  }
  return {};
}

Result<> check_listen(const DsConfig& config) {
  for (const auto& address : config.listen_rdma) {
    if (std::ranges::any_of(config.listen,
                            [&](const auto& tcp) { return tcp.port == address.port; })) {
      return fail(Errc::kInvalid,
                  fmt::format("server.listen has port {} both for TCP and for RDMA", address.port));
    }
    if (address.port == 0) return fail(Errc::kInvalid, "server.listen needs a port for RDMA");
  }
  if (config.listen.empty() && !config.listen_rdma.empty()) {
    return fail(Errc::kInvalid,
                "server.listen needs an address for TCP, too: other servers come by TCP, and so "
                "do clients without RDMA");
  }
  return {};
}

}  // namespace weft::ds
