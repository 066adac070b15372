// What data servers hold that the metadata server asks them for: which cluster keys, for who
// changes the key, which options, and what their segments do; and whether they reach each other.
//
// Threading: any thread.
#pragma once

#include "ganesha-fsal/admin/requests.h"
#include "ganesha-fsal/server/metadata_server.h"

namespace weft::mds {

// GetKeys, GetServerOptions, GetTargets, GetPaths, GetSegments.
void add_held(MetadataServer& server, admin::Table& table);

}  // namespace weft::mds
