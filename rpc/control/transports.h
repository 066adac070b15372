// What a data server tells the metadata server of how it reaches its partners and its targets; as
// messages.h. A metadata server that does not know the request answers kNotSupported.
//
// Threading: plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rpc/control/messages.h"

namespace weft::rpc::control {

// How many of the data server's I/O threads have a connection to the partner, by each transport.
struct PartnerTransports {
  std::uint32_t ds_id = 0;
  std::uint32_t rdma = 0;
  std::uint32_t tcp = 0;
  friend bool operator==(const PartnerTransports&, const PartnerTransports&) = default;
};
template <class Io>
void describe(Io& io, PartnerTransports& r) {
  io("ds_id", r.ds_id);
  io("rdma", r.rdma);
  io("tcp", r.tcp);
}

struct TargetTransports {
  static constexpr std::size_t kMostAddress = 320;  // a name of 253 and a port
  static constexpr std::size_t kMostText = 64;
  std::string address;    // as the data server's configuration has it
  std::string transport;  // "rdma", "tcp", "shared memory", "none"; for people
  friend bool operator==(const TargetTransports&, const TargetTransports&) = default;
};
template <class Io>
void describe(Io& io, TargetTransports& r) {
  io("address", r.address, cut_at(TargetTransports::kMostAddress));
  io("transport", r.transport, cut_at(TargetTransports::kMostText));
}

// Takes the place of what was told before. A new connection begins with nothing told.
struct TellTransports {
  static constexpr std::uint32_t kVerb = 10;
  using Reply = void;
  static constexpr std::size_t kMostPartners = 4096;
  static constexpr std::size_t kMostTargets = 32;
  std::vector<PartnerTransports> partners;  // those that it is connected to
  std::vector<TargetTransports> targets;    // all of its store
  friend bool operator==(const TellTransports&, const TellTransports&) = default;
};
template <class Io>
void describe(Io& io, TellTransports& r) {
  io("partners", r.partners, cut_at(TellTransports::kMostPartners));
  io("targets", r.targets, cut_at(TellTransports::kMostTargets));
}

}  // namespace weft::rpc::control
