// What an administrator sees and does of the audit of objects (repair/auditor.h).
//
// Threading: as AdminSource.
#pragma once

#include <string>
#include <vector>

#include "ganesha-fsal/admin/source.h"
#include "ganesha-fsal/server/metadata_server.h"

namespace weft::mds {

// AdminSource::maintain() of "audit", "audit-check", "audit-stop" and "audit-status".
[[nodiscard]] Result<MaintenanceReport> audit(MetadataServer& server, const std::string& what);

// Adds warnings when objects were found that no file needs, and they are left.
void warn_of_strays(MetadataServer& server, std::vector<std::string>& warnings);

}  // namespace weft::mds
