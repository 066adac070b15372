// What `weft` shows of this metadata server (admin/source.h), made from a MetadataServer.
#pragma once

#include <memory>

#include "ganesha-fsal/admin/source.h"

namespace weft::mds {

class MetadataServer;

// The server outlives it.
[[nodiscard]] std::unique_ptr<AdminSource> make_admin_reports(MetadataServer& server);

}  // namespace weft::mds
