// Which cluster keys the servers have, for who changes the key.
//
// Threading: any thread.
#pragma once

#include "ganesha-fsal/admin/requests.h"
#include "ganesha-fsal/server/metadata_server.h"

namespace weft::mds {

// GetKeys.
void add_keys(MetadataServer& server, admin::Table& table);

}  // namespace weft::mds
