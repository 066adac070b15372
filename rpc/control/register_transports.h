// Registration with a metadata server that knows of RDMA (docs/protocol.md): one whose version of
// the protocol is kVersionWithRdma or later. Others are asked by Register, which does not carry
// what they would not read.
//
// Threading: plain values and pure functions.
#pragma once

#include "rpc/control/messages.h"

namespace weft::rpc::control {

constexpr std::uint32_t kVersionWithRdma = 4;

struct RegisterTransports {
  static constexpr std::uint32_t kVerb = 7;
  using Reply = Registered;
  Register all;
  friend bool operator==(const RegisterTransports&, const RegisterTransports&) = default;
};
template <class Io>
void describe(Io& io, RegisterTransports& r) {
  io("register", r.all);
  io("rdma", r.all.rdma, at_most(kMaxAddresses));
  io.check(r.all.addresses.size() + r.all.rdma.size() <= kMaxAddresses);
}

}  // namespace weft::rpc::control
