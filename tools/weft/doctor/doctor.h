// doctor: is this machine fit for what it does in a Weft system, and does it reach the others?
//
// Threading: one thread; blocking, some seconds at most for each server that does not answer.
#pragma once

#include <string>
#include <vector>

#include "tools/weft/commands.h"
#include "tools/weft/setup/machine.h"

namespace weft::cli {

struct DoctorOptions {
  Places places;
  std::vector<std::string> servers;  // "192.0.2.11:2051": to be reached as well
  std::string version;               // of this program
};
// kExitBad when something is bad.
[[nodiscard]] int doctor_command(const Settings& settings, const DoctorOptions& options);

}  // namespace weft::cli
