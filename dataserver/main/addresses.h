// The addresses of weft-ds.toml: where the data server listens, and what of that clients are told,
// by TCP and by RDMA. Clients tell addresses apart by IP and port alone, whatever the transport.
//
// Threading: plain functions; the field sets its part of a configuration that outlives it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dataserver/main/config.h"
#include "dataserver/process/config_fields.h"

namespace weft::ds {

// A list of addresses, those for RDMA by their scheme.
[[nodiscard]] TomlField transports_field(std::string key, std::vector<layout::NetAddress>& by_tcp,
                                         std::vector<layout::NetAddress>& rdma,
                                         ReadAddress read = &numeric_address);

// "rdma://192.0.2.1", "rdma://[2001:db8::1]:20049"; the port is NFS/RDMA's if it is not given.
[[nodiscard]] Result<layout::NetAddress> parse_rdma_address(std::string_view text,
                                                            ReadAddress read = &numeric_address);

// What clients are told by TCP; and by RDMA, where it listens at those of listen_rdma that are
// true.
[[nodiscard]] std::vector<layout::NetAddress> told_tcp(const DsConfig& config);
[[nodiscard]] std::vector<layout::NetAddress> told_rdma(const DsConfig& config,
                                                        const std::vector<bool>& bound);

// kInvalid: addresses that do not go together, to listen at, or to tell.
[[nodiscard]] Result<> check_listen(const DsConfig& config);
[[nodiscard]] Result<> check_told(const DsConfig& config);

}  // namespace weft::ds
