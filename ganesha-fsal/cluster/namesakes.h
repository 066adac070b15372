// What people are told of data servers that cannot be told apart: two that are here have one name,
// or tell clients one address, as when a configuration was copied. Clients then reach only one of
// them, and the objects of the other seem to be lost. A new one in the place of one that is gone
// has its name and address, and is none of these.
//
// Threading: a pure function.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ganesha-fsal/cluster/registry.h"

namespace weft::mds {

// A sentence for each name and each address that several have.
[[nodiscard]] std::vector<std::string> namesakes(std::span<const ServerView> servers);

}  // namespace weft::mds
