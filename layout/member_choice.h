// Which member of a mirror group is to do a file's I/O: CEFT-PVFS's choice (Zhu et al., Figure 10).
//
// The figure contradicts itself and leaves ties and equalities open; this is our reading of it. A
// member's capability is what one more stream can expect of it:
//
//   cap = 0                     a CPU-busy member
//         network               free memory above memory_floor: the page cache takes writes
//         min(disk, network)    otherwise
//
// with the estimates of layout/load.h. A member is fit if its cap is above the threshold: half of
// what the group's slowest member can do when idle (its disk's or network's maximum, the lesser).
//
// 1. A member that is not fit is chosen only when none is; then the group is `loaded`, and a new
//    file does better without it.
// 2. Of fit members those with memory to spare go first; then the greatest cap; then the leader.
// 3. Choices do not flap: the leader is left for another only when that one is better by more than
//    `margin`, memory and loadedness have a margin too, and members that are alike take turns.
//    With margin 0 the rule is the plain one.
//
// What is not measured limits nothing. A member whose partners do not have all its bytes yet is
// to be the only one eligible, whatever the loads.
//
// Threading: plain values and pure functions. What is to be remembered between choices is passed
// in and comes back.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "layout/load.h"

namespace weft::layout {

// Why a member was chosen, or a group found loaded. Kept in layout maps: numbers never change.
enum class Reason : std::uint8_t {
  kUnknown = 0,  // not recorded
  kOnly = 1,     // no other was eligible
  kTurn = 2,     // all alike: by turn
  kSteady = 3,   // not enough worse than another to change
  kNetwork = 4,  // the others' networks have less to spare
  kMemory = 5,   // the others have no memory to spare
  kDisk = 6,     // the others' disks have less to spare
  kCpu = 7,      // the others' CPUs are busy
  kMoved = 8,    // it took the place of one that was drained, emptied or lost
  kMirror = 9,   // of the group of the first copy's server, which is of another failure domain
};
constexpr std::uint8_t kLastReason = 9;

[[nodiscard]] std::string_view to_string(Reason reason);

struct ChoiceRules {
  std::uint64_t memory_floor = 64u << 20;  // F: bytes free below which writes go at disk speed
  double margin = 0.15;                    // of what the slowest member can do when idle
  // Bytes free below which a server is not to lead, if another can: what a server may be sent
  // between two heartbeats.
  std::uint64_t room_floor = 64u << 20;
};

struct MemberView {
  ServerLoad load;
  bool eligible = true;  // holds all the bytes asked for, and is up
};

// Of one group, between choices.
struct GroupMemory {
  std::uint8_t leader = kNobody;  // index of the member that load made the better one
  bool loaded = false;

  static constexpr std::uint8_t kNobody = 255;
  friend bool operator==(const GroupMemory&, const GroupMemory&) = default;
};

struct MemberChoice {
  std::uint8_t member = 0;
  Reason reason = Reason::kUnknown;  // of the choice; if loaded, what the group is short of
  bool loaded = false;
  GroupMemory memory;  // for the next choice
};

// `turn` breaks ties. Precondition: 1 to 255 members, at least one eligible.
[[nodiscard]] MemberChoice choose_member(std::span<const MemberView> members,
                                         const ChoiceRules& rules, const GroupMemory& memory,
                                         std::uint64_t turn);

// What one more stream can expect of each member and what makes it fit, as choose_member sees it;
// for tests and reports.
struct Capability {
  double cap = 0;        // bytes a second
  double threshold = 0;  // bytes a second; the same for all members
};
[[nodiscard]] Capability capability(std::span<const MemberView> members, std::size_t member,
                                    const ChoiceRules& rules);

}  // namespace weft::layout
