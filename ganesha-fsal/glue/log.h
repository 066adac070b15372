// Our log lines go where Ganesha's go: spdlog's default logger of this module is given a sink that
// hands each line to Ganesha's log, component FSAL, with the level mapped.
#pragma once

namespace weft::mds {

// Called once, when the module is loaded.
void log_to_ganesha();

}  // namespace weft::mds
