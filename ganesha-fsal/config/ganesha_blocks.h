// Whether what is Ganesha's own in a ganesha.conf is as in its tables (ganesha_tables.h). Ganesha
// itself passes over a block that it does not know, and so would serve without what stands there.
//
// What stands in a block without keys there Ganesha tells.
//
// Threading: pure functions.
#pragma once

#include "ganesha-fsal/config/conf_reader.h"

namespace weft::mds {

// Every name is one that there is, and every word; numbers are in their ranges; what may be given
// once only is, and what has to be is. kInvalid.
[[nodiscard]] Result<> check_ganesha_blocks(const ConfBlock& conf);
// An FSAL block names WEFT, or an FSAL that comes with Ganesha as it is built here
// (tools/dev/ganesha.sh). kInvalid.
[[nodiscard]] Result<> check_fsal_name(const ConfBlock& fsal);

}  // namespace weft::mds
