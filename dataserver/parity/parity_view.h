// How a parity group is, for metrics, heartbeats and people.
//
// Threading: written by the group; read on any thread, a field at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

namespace weft::ds {

enum class GroupState : std::uint8_t { kStarting, kWhole, kDegraded, kRebuilding };
[[nodiscard]] std::string_view to_string(GroupState state);

// Of the scrub that goes on, or of the last.
struct ScrubView {
  std::atomic<bool> running{false};
  std::atomic<bool> waiting{false};  // until the group is whole
  std::atomic<bool> only_tell{false};
  std::atomic<std::uint32_t> permille{0};
  std::atomic<std::uint64_t> remaining_s{0};  // at the rate so far; 0: not known
  std::atomic<std::uint64_t> objects{0};      // gone through; what was found, as ScrubFindings:
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::uint64_t> corrupt{0};
  std::atomic<std::uint64_t> parity{0};
  std::atomic<std::uint64_t> lost{0};
  std::atomic<std::uint64_t> failed{0};
  std::atomic<std::uint64_t> ended{0};   // when one did last, or the group was made; s since 1970
  std::atomic<std::uint64_t> rounds{0};  // that ended, in this process
};

struct ParityView {
  std::atomic<GroupState> state{GroupState::kStarting};
  std::atomic<int> out{-1};
  std::atomic<std::uint32_t> awaited{0};   // members, a bit each, that recovery cannot do without
  std::atomic<std::uint32_t> away{0};      // members that were not there when recovery looked last
  std::atomic<int> may_give_up{-1};        // the one member that it waits for, if it is one
  std::atomic<std::uint64_t> given_up{0};  // blocks, and no scrub has found that none is left
  std::atomic<std::uint64_t> epoch{0};
  std::atomic<std::uint64_t> dirty_regions{0};
  std::atomic<std::uint64_t> corrupt_blocks{0};  // found and written anew
  std::atomic<std::uint64_t> lost_blocks{0};     // found, with no way to compute them
  std::atomic<std::uint64_t> objects_gone{0};    // found, of which a member has lost its part
  std::atomic<std::uint64_t> parity_fixed{0};    // rows whose parity was not their XOR
  std::atomic<std::uint64_t> put_out{0};         // times
  std::atomic<std::uint64_t> recoveries{0};
  std::atomic<std::uint64_t> rebuilt_bytes{0};  // written at the member, by this rebuild
  std::atomic<std::uint64_t> rebuild_objects_left{0};
  std::atomic<std::uint32_t> rebuild_permille{0};  // of the objects that this rebuild goes through
  std::atomic<std::uint64_t> rebuilds{0};          // ended well
  std::atomic<std::uint64_t> replaced{0};          // members that were new and empty
  ScrubView scrub;
};

}  // namespace weft::ds
