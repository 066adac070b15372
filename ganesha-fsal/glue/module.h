// The FSAL module: what Ganesha loads.
//
// Threading: made once when libfsalweft.so is loaded, and never destroyed while Ganesha serves.
#pragma once

#include "ganesha-fsal/glue/ganesha.h"

namespace weft::mds {

struct Module : fsal_module {
  fsal_obj_ops object_ops;
};

[[nodiscard]] Module& module();

// FSAL_ID of an FSAL that is not in Ganesha's own tree: byte 0 of our device ids.
inline constexpr std::uint8_t kFsalId = FSAL_ID_EXPERIMENTAL;

}  // namespace weft::mds
