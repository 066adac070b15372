// Mirror groups: which data servers hold copies of each other's bytes.
//
// With k copies, data servers are put together in groups of k in different failure domains. A file
// is striped over groups; each of its stripes has its copies within one group. Groups are for files
// to be made: a file's layout map names its servers and is not changed when groups are.
//
// 1. A group has at least k members. Servers left over that make no group of their own are further
//    members of others, so that none lies idle: a file uses k of a group's members.
// 2. A sound group has k members in k different domains, and they stand first. There are as many
//    sound groups as the domains allow. Servers that only groups within one domain are left for
//    make unsound groups, and a warning says so.
// 3. Servers are taken in the order of their ids, which is the order they joined in: a server more
//    changes no sound group unless a group that would otherwise not be sound needs a member, and
//    then one such group for each member missing.
// 4. The same calls give the same groups; without `previous`, so does a restart.
//
// Threading: plain values and pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "layout/layout_map.h"

namespace weft::layout {

constexpr std::uint32_t kMaxMirrors = 3;  // copies that placement makes

struct GroupServer {
  std::uint32_t ds_id = 0;
  std::string domain;

  friend bool operator==(const GroupServer&, const GroupServer&) = default;
};

struct MirrorGroup {
  std::vector<std::uint32_t> members;  // the first k are the group proper
  bool sound = false;                  // the first k are in k different domains

  friend bool operator==(const MirrorGroup&, const MirrorGroup&) = default;
};

struct MirrorGroups {
  std::vector<MirrorGroup> groups;
  std::vector<std::string> warnings;  // sentences for an administrator

  friend bool operator==(const MirrorGroups&, const MirrorGroups&) = default;
};

// Groups of `servers`, each id once, in any order. Sound groups of `previous` whose members are all
// still there stay as they are, as far as rule 2 allows. None, with a warning, when there are fewer
// servers than copies. Precondition: 1 <= copies <= kMaxMirrors.
[[nodiscard]] MirrorGroups form_groups(const MirrorGroups& previous,
                                       std::span<const GroupServer> servers, std::uint32_t copies);

// Whether two copies of a stripe are in one failure domain, though `servers` are in as many domains
// as the map has copies. Data servers that are not among them count for nothing. Precondition:
// validate(map).
[[nodiscard]] bool shares_domain(const LayoutMap& map, std::span<const GroupServer> servers);

}  // namespace weft::layout
