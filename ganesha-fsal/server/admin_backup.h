// What an administrator asks about backups, and about a metadata store that came back from one.
//
// Threading: as admin/requests.h; the server outlives the table.
#pragma once

#include "ganesha-fsal/admin/requests.h"
#include "ganesha-fsal/server/metadata_server.h"

namespace weft::mds {

void add_backup(MetadataServer& server, admin::Table& table);

// How many files of a backup are still to be compared, and have lost bytes.
void add_restored(const Namespace& names, StatusReport& report);

}  // namespace weft::mds
