// What data servers' segments do, for who decides whether to keep them.
//
// Threading: any thread.
#pragma once

#include "ganesha-fsal/admin/requests.h"
#include "ganesha-fsal/server/metadata_server.h"

namespace weft::mds {

// GetSegments.
void add_segments(MetadataServer& server, admin::Table& table);

}  // namespace weft::mds
