// config show: the options that hold at the metadata server, at data servers and at their targets,
// and which are not the defaults.
//
// Threading: one thread; blocking.
#pragma once

#include <optional>
#include <string>

#include "ganesha-fsal/admin/config_reports.h"
#include "rpc/xdr/describe_json.h"
#include "tools/weft/commands.h"

namespace weft::cli {

struct ConfigShowOptions {
  std::string server;    // a data server's id or name: only its; empty: all
  bool changed = false;  // only those that are not the defaults
};
[[nodiscard]] int config_show_command(const Settings& settings, const ConfigShowOptions& options);

struct RunningConfig {
  std::optional<mds::ConfigReport> here;  // nothing: only data servers were asked for
  mds::ServersOptionsReport servers;
  mds::TargetsReport targets;
};
[[nodiscard]] std::string config_text(const RunningConfig& report);
// With is_default beside each option; of which kind its value is, its default says.
[[nodiscard]] Json config_json(const RunningConfig& report);
[[nodiscard]] RunningConfig only_changed(RunningConfig report);

}  // namespace weft::cli
