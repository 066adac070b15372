// clients: which NFS clients there are, and what they hold.
//
// Threading: one thread; blocking.
#pragma once

#include <string>

#include "ganesha-fsal/admin/client_reports.h"
#include "tools/weft/commands.h"

namespace weft::cli {

[[nodiscard]] int clients_command(const Settings& settings);

[[nodiscard]] std::string clients_text(const mds::ClientsReport& report);

}  // namespace weft::cli
