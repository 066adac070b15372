// Our log lines go where Ganesha's go: spdlog's default logger of this module is given a sink that
// hands each line to Ganesha's log, component FSAL, with the level mapped. Another remembers
// events, whatever Ganesha's level is.
//
// Ganesha ends with status 2 whenever it gives up, and its unit takes that for a bad configuration.
// Of a server that serves it is status 1, so that it is started again.
#pragma once

#include "ganesha-fsal/server/events.h"

namespace weft::mds {

// Called once, when the module is loaded.
void log_to_ganesha();
// Before it is unloaded.
void leave_ganeshas_log();

// Of all metadata servers of this process, as its log is. Never destroyed.
[[nodiscard]] Events& log_events();

}  // namespace weft::mds
