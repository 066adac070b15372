// What an administrator sees and does of the audit of objects (repair/auditor.h).
//
// Threading: as AdminSource.
#pragma once

#include <string>

#include "ganesha-fsal/admin/source.h"
#include "ganesha-fsal/server/metadata_server.h"

namespace weft::mds {

// AdminSource::maintain() of "audit", "audit-check", "audit-stop" and "audit-status".
[[nodiscard]] Result<MaintenanceReport> audit(MetadataServer& server, const std::string& what);

// What the last audit left where it is.
void add_strays(MetadataServer& server, StatusReport& report);

}  // namespace weft::mds
