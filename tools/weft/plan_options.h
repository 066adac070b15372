// The command line of `weft plan`.
//
// Threading: one thread.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "tools/weft/commands.h"

namespace weft::cli {

// Adds `plan` and what is below it. When one of them is on the command line, `chosen` becomes what
// runs it. Both references are kept and used while parsing and running.
void add_plan(CLI::App& app, const Settings& settings, std::function<int()>& chosen);

}  // namespace weft::cli
