// What an administrator does with data servers while the system runs, and how far that is.
//
// Threading: as AdminSource.
#pragma once

#include <string>
#include <vector>

#include "ganesha-fsal/admin/source.h"
#include "ganesha-fsal/fsal/backend.h"

namespace weft::mds {

// AdminSource::maintain().
[[nodiscard]] Result<MaintenanceReport> maintain(Backend& backend, const std::string& what,
                                                 const std::string& whom);

// Fills in how far data servers are with being left.
[[nodiscard]] Result<> add_leaving(Backend& backend, std::vector<DataServerReport>& reports);

// Which data server takes another's place in the file's map; empty: none.
[[nodiscard]] std::string moving_text(Backend& backend, FileId file);

}  // namespace weft::mds
