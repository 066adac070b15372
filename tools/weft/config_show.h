// config show: the options that hold at the metadata server, and which are not the defaults.
//
// Threading: one thread; blocking.
#pragma once

#include <string>

#include "ganesha-fsal/admin/config_reports.h"
#include "rpc/xdr/describe_json.h"
#include "tools/weft/commands.h"

namespace weft::cli {

// `changed`: only those that are not the defaults.
[[nodiscard]] int config_show_command(const Settings& settings, bool changed);

[[nodiscard]] std::string config_text(const mds::ConfigReport& report);
// With is_default beside each option.
[[nodiscard]] Json config_json(const mds::ConfigReport& report);
[[nodiscard]] mds::ConfigReport only_changed(mds::ConfigReport report);

}  // namespace weft::cli
