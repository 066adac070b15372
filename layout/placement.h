// Placement: which data servers a new file is put on, and why. New files go over mirror groups,
// away from what is loaded or full.
//
// The metadata server asks once for each file it creates, with what it knows of every data server,
// and records the answer in the file's layout map.
//
// 1. Only servers that are up and have more than the policy's reserve free get new files. A group
//    that lacks such members is completed from others that are left (layout/mirror_groups.h).
// 2. A group whose fullest member has less than kFilling of its space free gets fewer new files, in
//    proportion to that part; if all are that full, in proportion to the emptiest.
// 3. At most one loaded group is left out of a file (CEFT-PVFS: at most one pair is skipped), by
//    what it is short of: network before memory before disk before CPU. None when all are loaded
//    and short of the same. A file over fewer groups
//    than there are stays away from all loaded ones, as long as they are at most half. With
//    policy.skip off no file gets fewer groups than it is to have for that.
// 4. Within a group the leading copy is chosen by layout/member_choice.h; members that are alike
//    take turns. The other copies are in other domains where the group has them.
// 5. Every file starts one group further on; with policy.first all that have the same number start
//    at the same one of those that are left by 1 to 3. It changes for few numbers only when a group
//    comes or goes.
// 6. What decided stands in the map (Placed) and, with more words, in the choice's reason.
//
// Without loads or mirrors this is round robin.
//
// Threading: place_by_load is pure; what it has to remember, its caller passes in. Placement wraps
// it with a lock, for callers on any thread.
#pragma once

#include <array>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "layout/candidate.h"
#include "layout/layout_map.h"
#include "layout/member_choice.h"
#include "layout/mirror_groups.h"
#include "rpc/base/error.h"
#include "rpc/base/mutex.h"

namespace weft::layout {

constexpr double kFilling = 0.2;  // the part of a server's space below which it counts as filling

struct PlacementChoice {
  LayoutMap map;
  std::string reason;  // for logs and `weft layout show`
};

// What placement remembers from file to file. All of it may be forgotten: choices then only lose
// their steadiness.
struct PlacementMemory {
  struct Grouping {
    std::vector<GroupServer> servers;
    MirrorGroups groups;
  };
  std::array<Grouping, kMaxMirrors> all;  // by copies - 1: of all servers there are
  std::array<Grouping, kMaxMirrors> fit;  // of those that get new files now
  std::map<std::vector<std::uint32_t>, GroupMemory> choices;  // by a group's members
  std::vector<std::uint32_t> skipped;  // the members of the group left out last
};

[[nodiscard]] Result<PlacementChoice> place_by_load(std::span<const Candidate> candidates,
                                                    const PlacementPolicy& policy,
                                                    const ChoiceRules& rules, std::uint64_t turn,
                                                    PlacementMemory& memory);

class Placement {
 public:
  // `start`: the first turn, so that restarts do not all begin at the same server.
  explicit Placement(std::uint64_t start = 0, ChoiceRules rules = {})
      : rules_(rules), turn_(start) {}

  // Fewer servers than the policy's stripes is no error: the file is striped over those that are
  // fit. kNoSpace when too few of those that are up have room, kLayoutTryLater when too few are up,
  // kInvalid for a policy that makes no layout or wants more copies than there are data servers.
  [[nodiscard]] Result<PlacementChoice> choose(std::span<const Candidate> candidates,
                                               const PlacementPolicy& policy);

  // What an administrator should know of the groups, as of the last choice with so many copies.
  [[nodiscard]] std::vector<std::string> warnings(std::uint32_t copies) const;

 private:
  const ChoiceRules rules_;
  mutable Mutex mutex_;
  std::uint64_t turn_ WEFT_GUARDED_BY(mutex_);
  PlacementMemory memory_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft::layout
