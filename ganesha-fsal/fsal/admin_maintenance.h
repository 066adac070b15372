// What an administrator does with data servers while the system runs, and how far that is.
//
// Threading: as AdminSource.
#pragma once

#include <string>
#include <vector>

#include "ganesha-fsal/admin/source.h"
#include "ganesha-fsal/fsal/backend.h"

namespace weft::mds {

// AdminSource::maintain(), but for beginning a scrub.
[[nodiscard]] Result<MaintenanceReport> maintain(Backend& backend, const std::string& what,
                                                 const std::string& whom);

// Of one file, or all.
[[nodiscard]] Result<MaintenanceReport> begin_scrub(Backend& backend, std::optional<FileId> file,
                                                    bool only_tell);
// Adds a warning when copies differed.
[[nodiscard]] ScrubReport scrub_report(Backend& backend, std::vector<std::string>& warnings);

// What the last rebalance does, or did.
[[nodiscard]] std::string rebalance_text(Backend& backend);

// Fills in how far data servers are with being left.
[[nodiscard]] Result<> add_leaving(Backend& backend, std::vector<DataServerReport>& reports);

// Which data server takes another's place in the file's map; empty: none.
[[nodiscard]] std::string moving_text(Backend& backend, FileId file);

}  // namespace weft::mds
