// How much fits on data servers, with copies at different ones or in different failure domains.
//
// Threading: a pure function.
#pragma once

#include <cstdint>
#include <vector>

namespace weft::layout {

// `places`: the bytes that each data server has, or each failure domain. The most bytes of files of
// which each has a copy in `copies` different places. 0 when there are fewer places than copies.
// Requires: copies > 0. Placement keeps copies in different domains as long as it can, and then at
// different data servers (layout/mirror_groups.h), so the latter is what fits.
[[nodiscard]] std::uint64_t room_for(std::vector<std::uint64_t> places, unsigned copies);

}  // namespace weft::layout
