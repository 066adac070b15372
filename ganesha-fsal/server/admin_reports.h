// What `weft` shows of this metadata server, and does with it: the requests of admin/requests.h,
// answered from a MetadataServer.
//
// Threading: its answers come on any thread, while the rest of the metadata server runs. What only
// tells answers within a second or so: the socket's other callers wait.
#pragma once

#include "ganesha-fsal/admin/requests.h"

namespace weft::mds {

class MetadataServer;

// kInvalid, with the paths of the exports there are.
[[nodiscard]] std::unexpected<Error> in_no_export(const MetadataServer& server,
                                                  const std::string& path);

// The server outlives it.
[[nodiscard]] admin::Table make_admin_table(MetadataServer& server);

}  // namespace weft::mds
