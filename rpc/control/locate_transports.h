// Where a partner is, by all transports. A metadata server that does not know the request answers
// kNotSupported; it is asked by Locate, which knows of TCP alone.
//
// Threading: plain values and pure functions.
#pragma once

#include "rpc/control/messages.h"

namespace weft::rpc::control {

struct LocatedTransports {
  Located all;
  friend bool operator==(const LocatedTransports&, const LocatedTransports&) = default;
};
template <class Io>
void describe(Io& io, LocatedTransports& r) {
  io("located", r.all);
  io("rdma", r.all.rdma, at_most(kMaxAddresses));
  io.check(r.all.addresses.size() + r.all.rdma.size() <= kMaxAddresses);
}

struct LocateTransports {
  static constexpr std::uint32_t kVerb = 9;
  using Reply = LocatedTransports;
  std::uint32_t ds_id = 0;
  friend bool operator==(const LocateTransports&, const LocateTransports&) = default;
};
template <class Io>
void describe(Io& io, LocateTransports& r) {
  io("ds_id", r.ds_id);
}

}  // namespace weft::rpc::control
