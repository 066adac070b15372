// An export's options (options.h, C) as the metadata server and placement take them.
#pragma once

#include "ganesha-fsal/admin/config_reports.h"
#include "ganesha-fsal/config/options_check.h"
#include "ganesha-fsal/server/server_options.h"
#include "layout/placement.h"

namespace weft::mds {

[[nodiscard]] ServerOptions server_options(const weft_options& options);

// As they are told to an administrator.
[[nodiscard]] std::vector<OptionReport> option_reports(const weft_options& options,
                                                       OptionsOf whose);

// What they say about new files; export_policy() of options_check.h as well.
[[nodiscard]] layout::PlacementPolicy placement_policy(const weft_options& options);

}  // namespace weft::mds
