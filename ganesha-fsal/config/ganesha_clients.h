// Who may mount: what Clients of a CLIENT block may be, and what the blocks do together.
//
// Threading: pure functions.
#pragma once

#include <string>
#include <vector>

#include "ganesha-fsal/config/conf_reader.h"

namespace weft::mds {

// What is wrong with one of Clients; empty: nothing. Whether there is such a host is not asked.
[[nodiscard]] std::string wrong_client(const ConfTerm& term);

// Those that are hosts' names, one each: Ganesha looks them up when it starts, and ends where
// nobody knows one.
[[nodiscard]] std::vector<ConfStatement> client_hosts(const ConfBlock& conf);

// One line each, "FILE:LINE: what": CLIENT blocks that change nothing, in an EXPORT that everybody
// may mount. Ganesha takes what they do not say from the EXPORT, so they keep nobody out.
[[nodiscard]] std::vector<std::string> idle_client_blocks(const ConfBlock& conf);

}  // namespace weft::mds
