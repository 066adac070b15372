// Whose request an operation of the namespace is.
//
// Threading: a plain value. `groups` points to the caller's memory, which has to outlive the call.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace weft::mds {

struct Credentials {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::span<const std::uint32_t> groups;  // besides gid
  bool superuser = false;                 // no right is checked, as for Linux's root

  [[nodiscard]] bool in_group(std::uint32_t group) const {
    return gid == group || std::ranges::find(groups, group) != groups.end();
  }
};

// The server's own, for what no client asked for.
inline constexpr Credentials kSuperuser{.superuser = true};

}  // namespace weft::mds
