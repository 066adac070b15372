// What Ganesha knows and an administrator asks: which NFSv4 clients there are.
//
// Threading: any thread. A list is a copy, made under Ganesha's locks on its table of clients, one
// partition after the other: it is no snapshot of one moment.
#pragma once

#include <map>
#include <string>

#include "ganesha-fsal/files/grants.h"

namespace weft::mds {

// Every confirmed client id with who it is: the address its EXCHANGE_ID (or SETCLIENTID) came from
// and the owner it named there, "192.0.2.7 (Linux NFSv4.2 node7)". What the client chose is shown
// with \x.. for all but printable ASCII, cut at 128 bytes.
[[nodiscard]] std::map<ClientId, std::string> nfs_clients();

}  // namespace weft::mds
