// How a data server's parity group is, as it tells the metadata server; as messages.h. A metadata
// server that does not know the request answers kNotSupported. A data server that does not know it
// says this by Heartbeat::store alone, which is for people: read_group_words() understands it.
//
// Threading: plain values and pure functions.
#pragma once

#include <cstdint>
#include <string_view>

#include "rpc/xdr/describe.h"

namespace weft::rpc::control {

enum class GroupState : std::uint32_t {
  kNone = 0,      // there is no group, or it does not say
  kStarting = 1,  // it serves nothing yet; GroupScrub::awaited: the targets that it waits for
  kWhole = 2,
  kDegraded = 3,  // a target is out
  kRebuilding = 4,
};
// "none", "starting", "whole", "degraded", "rebuilding".
[[nodiscard]] std::string_view to_string(GroupState state);

// Takes the place of what was told before. A new connection begins with nothing told.
struct TellGroup {
  static constexpr std::uint32_t kVerb = 11;
  using Reply = void;
  GroupState state = GroupState::kNone;
  std::uint32_t rebuilt_permille = 0;  // while kRebuilding: of the objects to be gone through
  friend bool operator==(const TellGroup&, const TellGroup&) = default;
};
template <class Io>
void describe(Io& io, TellGroup& r) {
  io("state", r.state, among(GroupState::kNone, GroupState::kRebuilding));
  io("rebuilt_permille", r.rebuilt_permille);
}

// What such a Heartbeat::store means.
[[nodiscard]] TellGroup read_group_words(std::string_view store);

}  // namespace weft::rpc::control
