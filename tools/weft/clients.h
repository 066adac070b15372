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
// "192.0.2.7 is in no network of d3, d4: ...".
[[nodiscard]] std::string no_way_text(const std::string& client,
                                      const std::vector<mds::ServerName>& servers);

}  // namespace weft::cli
