// Registration with a metadata server that knows of networks of clients (docs/protocol.md): one
// whose version of the protocol is kVersionWithNetworks or later. Others are asked as before
// (register_transports.h), and tell all clients the addresses that servers use.
//
// Threading: plain values and pure functions.
#pragma once

#include "rpc/control/messages.h"

namespace weft::rpc::control {

constexpr std::uint32_t kVersionWithNetworks = 5;

struct RegisterNetworks {
  static constexpr std::uint32_t kVerb = 8;
  using Reply = Registered;
  Register all;
  friend bool operator==(const RegisterNetworks&, const RegisterNetworks&) = default;
};
template <class Io>
void describe(Io& io, RegisterNetworks& r) {
  io("register", r.all);
  io("rdma", r.all.rdma, at_most(kMaxAddresses));
  io("networks", r.all.networks, at_most(layout::kMaxNetworks));
  io.check(r.all.addresses.size() + r.all.rdma.size() <= kMaxAddresses);
  io.check(layout::validate(r.all.networks).has_value());
}

}  // namespace weft::rpc::control
