// What the metadata server asks a data server of the cluster keys that its targets have; as
// messages.h. A data server that does not know the question says kNotSupported.
//
// Threading: plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rpc/control/messages.h"

namespace weft::rpc::control {

// Of one target, as it told its data server within the last seconds.
struct TargetKeys {
  static constexpr std::size_t kMostAddress =
      320;              // a name of 253 and a port, and how it is reached
  std::string address;  // as the data server's configuration has it
  HeldKeys held;
  std::string why;  // they are not known, for people; empty: they are
  friend bool operator==(const TargetKeys&, const TargetKeys&) = default;
};
template <class Io>
void describe(Io& io, TargetKeys& r) {
  io("address", r.address, cut_at(TargetKeys::kMostAddress));
  io("held", r.held);
  io("why", r.why, cut_at(kMaxText));
}

// Of every target that the data server has; none if its objects are in its own folder.
struct HeldByTargets {
  static constexpr std::size_t kMost = 32;
  std::vector<TargetKeys> targets;
  friend bool operator==(const HeldByTargets&, const HeldByTargets&) = default;
};
template <class Io>
void describe(Io& io, HeldByTargets& r) {
  io("targets", r.targets, at_most(HeldByTargets::kMost));
}
struct GetTargetKeys {
  static constexpr std::uint32_t kVerb = 34;
  using Reply = HeldByTargets;
  friend bool operator==(const GetTargetKeys&, const GetTargetKeys&) = default;
};
template <class Io>
void describe(Io& /*io*/, GetTargetKeys& /*r*/) {}

}  // namespace weft::rpc::control
