// The command line of health, events, clients, config, bench, df, top, version, doctor and
// support-bundle, and --watch.
//
// Threading: one thread.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "tools/weft/commands.h"

namespace weft::cli {

// Gives a command --watch: what it sets is for watch() (observe.h), 0 when it is not there.
void add_watch(CLI::App& command, double& interval_s);

// `settings`, `chosen` and `interval_s` outlive the app; parsing sets them.
void add_observe(CLI::App& app, const Settings& settings, std::function<int()>& chosen,
                 double& interval_s);

}  // namespace weft::cli
