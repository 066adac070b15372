// What an administrator sees and does of the audit of objects (repair/auditor.h).
//
// Threading: any thread.
#pragma once

#include "ganesha-fsal/admin/requests.h"
#include "ganesha-fsal/server/metadata_server.h"

namespace weft::mds {

// Audit, StopAudit, GetAudit.
void add_audit(MetadataServer& server, admin::Table& table);

// What the last audit left where it is.
void add_strays(MetadataServer& server, StatusReport& report);

}  // namespace weft::mds
