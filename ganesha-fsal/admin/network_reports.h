// What the metadata server tells of clients' networks (layout/client_network.h); as source.h.
//
// Threading: plain values.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "rpc/xdr/describe.h"

namespace weft::mds {

constexpr std::size_t kMaxNetworks = 8;      // of a data server
constexpr std::size_t kMaxNetworkList = 32;  // addresses, ranges
constexpr std::size_t kMaxNetworkText = 64;  // an address, a range, a name

// A network of a data server.
struct NetworkReport {
  std::string name;
  std::vector<std::string> addresses;  // "192.0.2.7:2051", preferred first
  std::vector<std::string> clients;    // "192.0.2.0/24"
};
template <class Io>
void describe(Io& io, NetworkReport& r) {
  io("name", r.name, cut_at(kMaxNetworkText));
  io("addresses", r.addresses, cut_at(kMaxNetworkList, kMaxNetworkText));
  io("clients", r.clients, cut_at(kMaxNetworkList, kMaxNetworkText));
}

}  // namespace weft::mds
