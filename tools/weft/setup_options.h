// The command line of init, token and join.
//
// Threading: one thread.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "tools/weft/commands.h"

namespace weft::cli {

// `settings` and `chosen` outlive the app; parsing sets `chosen` to what is to be run.
void add_setup(CLI::App& app, const Settings& settings, std::function<int()>& chosen);

}  // namespace weft::cli
