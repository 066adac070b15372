// The addresses of weft-ds.toml: where the data server listens, and what of that servers and
// clients are told, by TCP and by RDMA. Clients tell addresses apart by IP and port alone, whatever
// the transport.
//
// Threading: plain functions; the field sets its part of a configuration that outlives it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "dataserver/main/config.h"
#include "dataserver/process/config_fields.h"

namespace weft::ds {

// A list of addresses of both transports, in their order.
[[nodiscard]] TomlField device_addresses_field(std::string key,
                                               std::vector<layout::DeviceAddress>& into,
                                               ReadAddress read = &numeric_address);
[[nodiscard]] TomlField ranges_field(std::string key, std::vector<layout::AddressRange>& into);
// [[network]]: the fields of one are the caller's.
[[nodiscard]] TomlField networks_field(
    std::vector<layout::ClientNetwork>& into,
    std::function<std::vector<TomlField>(layout::ClientNetwork&)> fields);

// What is told of where it is: `tcp` to servers; all of it to clients, or else `networks`.
struct Told {
  std::vector<layout::NetAddress> tcp;
  std::vector<layout::NetAddress> rdma;
  std::vector<layout::ClientNetwork> networks;

  friend bool operator==(const Told&, const Told&) = default;
};
// Where clients get to those of listen_rdma that are true.
[[nodiscard]] Told told(const DsConfig& config, const std::vector<bool>& reachable);

// kInvalid: addresses that do not go together, to listen at, or to tell.
[[nodiscard]] Result<> check_listen(const DsConfig& config);
[[nodiscard]] Result<> check_told(const DsConfig& config);

}  // namespace weft::ds
