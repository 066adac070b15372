// health, df, top, version, support-bundle: how a system is, day by day.
//
// Threading: one thread; blocking.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "ganesha-fsal/admin/health.h"
#include "tools/weft/commands.h"

namespace weft::cli {

using mds::health_codes;
using mds::HealthCode;
using mds::is_note;
using mds::Problem;

struct HealthOptions {
  bool quiet = false;                            // nothing is printed of a healthy system
  std::vector<std::string> mute;                 // codes that are not to be told of any more
  std::vector<std::string> unmute;               // and those that are, again
  std::string muted = "/etc/weft/health-muted";  // where that is kept
};
// kExitBad when there is a problem that is neither muted nor a note.
[[nodiscard]] int health_command(const Settings& settings, const HealthOptions& options);

// Codes that are not told of.
using Muted = std::set<std::string, std::less<>>;
[[nodiscard]] std::string health_text(const std::vector<Problem>& found, const Muted& muted);

[[nodiscard]] int df_command(const Settings& settings);

struct TopOptions {
  double interval_s = 2;
  unsigned count = 0;  // of reports; 0: until it is interrupted
};
[[nodiscard]] int top_command(const Settings& settings, const TopOptions& options);

// Runs a command again and again, on a cleared screen when that is one. Returns when the process is
// ended.
[[nodiscard]] int watch(double interval_s, const std::function<int()>& command);

// kExitBad when not all servers have the same.
[[nodiscard]] int version_command(const Settings& settings, bool all, const std::string& own);

// `file`: where to; empty: weft-support-HOST.tar.gz.
[[nodiscard]] int support_command(const Settings& settings, const std::string& file);
// With everything that might be a key or a token replaced: runs of 32 hexadecimal digits or more.
[[nodiscard]] std::string without_secrets(const std::string& text);

}  // namespace weft::cli
