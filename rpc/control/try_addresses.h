// What the metadata server has a data server find out: whether others can be reached from there;
// as messages.h. A data server that does not know the request answers kNotSupported.
//
// Threading: plain values.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/control/messages.h"

namespace weft::rpc::control {

// Begins what is wrong with the size of packets, where a connection came about.
constexpr std::string_view kOfMtu = "MTU: ";

// Of each address, in the order of the request, what is wrong with the path there; empty: nothing.
struct TriedAddresses {
  std::vector<std::string> why;
  friend bool operator==(const TriedAddresses&, const TriedAddresses&) = default;
};

// Connects to each by TCP, all at the same time, and sends an NFS call that does nothing, which is
// as large as the path's packets get. kBusy: it does so for another request already.
struct TryAddresses {
  static constexpr std::uint32_t kVerb = 37;
  using Reply = TriedAddresses;
  static constexpr std::size_t kMost = 256;
  static constexpr std::chrono::milliseconds kPatience{2000};  // of a data server, with all
  std::vector<layout::NetAddress> addresses;
  friend bool operator==(const TryAddresses&, const TryAddresses&) = default;
};
template <class Io>
void describe(Io& io, TryAddresses& r) {
  io("addresses", r.addresses, at_most(TryAddresses::kMost));
}
template <class Io>
void describe(Io& io, TriedAddresses& r) {
  io("why", r.why, at_most(TryAddresses::kMost, kMaxText));
}

}  // namespace weft::rpc::control
