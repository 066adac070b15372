// What systemd is told of a data server's unit besides the unit's own file, by files below
// /etc/systemd/system.
//
// Threading: blocking; one thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rpc/base/error.h"

namespace weft::cli {

// Whether a process with this /proc/PID/status, and all that it starts, cannot have
// CAP_SYS_RESOURCE.
[[nodiscard]] bool lacks_sys_resource(std::string_view status);

// Has the service started after its disk is mounted, and without the capability that this machine
// has not. Returns notes for the administrator.
[[nodiscard]] Result<std::vector<std::string>> write_drop_ins(const std::string& unit,
                                                              const std::string& instance,
                                                              const std::string& disk);

}  // namespace weft::cli
