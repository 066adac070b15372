// How much fits on data servers, with copies in different failure domains.
//
// Threading: a pure function.
#pragma once

#include <cstdint>
#include <vector>

namespace weft::layout {

// `domains`: the bytes that each failure domain has. The most bytes of files of which each has a
// copy in `copies` different ones. 0 when there are fewer domains than copies. Requires: copies >
// 0.
[[nodiscard]] std::uint64_t room_for(std::vector<std::uint64_t> domains, unsigned copies);

}  // namespace weft::layout
