// What Ganesha knows and an administrator asks: which NFSv4 clients there are.
//
// Threading: any thread. A list is a copy, made under Ganesha's locks on its table of clients, one
// partition after the other: it is no snapshot of one moment.
#pragma once

#include <map>
#include <optional>

#include "ganesha-fsal/server/environment.h"
#include "layout/net_address.h"

namespace weft::mds {

// Every confirmed client id. What the client chose as its owner is shown with \x.. for all but
// printable ASCII, cut at 128 bytes.
[[nodiscard]] std::map<ClientId, NfsClient> nfs_clients();

// As Ganesha counts them.
[[nodiscard]] NfsPlaces nfs_places();

// Where the request that this thread carries out comes from; nullopt: from nobody.
[[nodiscard]] std::optional<layout::NetAddress> caller_address();

}  // namespace weft::mds
