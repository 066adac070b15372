// What the metadata server tells of how a data server reaches its partners and its targets; as
// source.h.
//
// Threading: plain values.
#pragma once

#include <cstdint>
#include <string>

#include "rpc/xdr/describe.h"

namespace weft::mds {

constexpr std::size_t kMaxTransport = 64;       // a text of these
constexpr std::size_t kMaxTargetAddress = 320;  // a name of 253 and a port
constexpr std::size_t kMaxTargets = 32;         // of a data server

// A data server that this one is connected to.
struct PartnerReport {
  std::uint32_t id = 0;
  std::string transport;  // "rdma", "tcp"; "rdma and tcp" while its I/O threads differ
};
template <class Io>
void describe(Io& io, PartnerReport& r) {
  io("id", r.id);
  io("transport", r.transport, cut_at(kMaxTransport));
}

struct TargetReport {
  std::string address;    // "tcp:disks1:9640", as the configuration has it
  std::string transport;  // "rdma", "tcp", "shared memory", "none"
};
template <class Io>
void describe(Io& io, TargetReport& r) {
  io("address", r.address, cut_at(kMaxTargetAddress));
  io("transport", r.transport, cut_at(kMaxTransport));
}

}  // namespace weft::mds
