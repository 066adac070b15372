// Whether what is Ganesha's own in a ganesha.conf is as in its tables (ganesha_tables.h). Ganesha
// itself passes over a block that it does not know, and so would serve without what stands there.
//
// What stands in a block without keys there Ganesha tells.
//
// Threading: pure functions.
#pragma once

#include <string>
#include <vector>

#include "ganesha-fsal/config/conf_reader.h"

namespace weft::mds {

// One line each, "FILE:LINE: what": CLIENT blocks that change nothing, in an EXPORT that everybody
// may mount. Ganesha takes what they do not say from the EXPORT, so they keep nobody out.
[[nodiscard]] std::vector<std::string> idle_client_blocks(const ConfBlock& conf);

// Every name is one that there is, and every word, and numbers are in their ranges. kInvalid.
[[nodiscard]] Result<> check_ganesha_blocks(const ConfBlock& conf);
// An FSAL block names WEFT, or an FSAL that comes with Ganesha as it is built here
// (tools/dev/ganesha.sh). kInvalid.
[[nodiscard]] Result<> check_fsal_name(const ConfBlock& fsal);

}  // namespace weft::mds
