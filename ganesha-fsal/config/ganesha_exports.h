// Whether EXPORT blocks are those of exports that Ganesha makes: each can be told from the others,
// and clients find it. Where one is not, Ganesha ends, or leaves it out.
//
// Threading: pure functions.
#pragma once

#include <string>
#include <vector>

#include "ganesha-fsal/config/conf_reader.h"

namespace weft::mds {

// Of a file in which check_ganesha_blocks() finds nothing. kInvalid.
[[nodiscard]] Result<> check_exports(const ConfBlock& conf);
// One line each, "FILE:LINE: what": EXPORT blocks that Ganesha serves by NFSv3 alone.
[[nodiscard]] std::vector<std::string> exports_without_nfs4(const ConfBlock& conf);

}  // namespace weft::mds
