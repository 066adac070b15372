// An export's options (options.h, C) as the metadata server and placement take them.
#pragma once

#include "ganesha-fsal/glue/options.h"
#include "ganesha-fsal/server/server_options.h"
#include "layout/placement.h"
#include "layout/policy.h"

namespace weft::mds {

[[nodiscard]] ServerOptions server_options(const weft_options& options);

// What they say about new files.
[[nodiscard]] layout::Policy export_policy(const weft_options& options);
[[nodiscard]] layout::PlacementPolicy placement_policy(const weft_options& options);
[[nodiscard]] layout::LayoutType layout_type(const weft_options& options);

}  // namespace weft::mds
