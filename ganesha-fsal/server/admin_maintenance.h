// What an administrator does with data servers while the system runs, and how far that is.
//
// Threading: any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ganesha-fsal/admin/requests.h"
#include "ganesha-fsal/server/metadata_server.h"

namespace weft::mds {

// For people: "data server 3 (ds-a)".
[[nodiscard]] std::string title(const ServerView& view);
[[nodiscard]] ServerName name_of(const ServerView& view);
// By its id or name. kNotFound; kInvalid: several have that name.
[[nodiscard]] Result<ServerView> find_server(MetadataServer& server, const std::string& whom);

// Drain, Undrain, Remove, Accept, GiveUp, Rebalance, StopRebalance, StopScrub.
void add_maintenance(MetadataServer& server, admin::Table& table);

// Of one file, or all.
[[nodiscard]] Result<MaintenanceReport> begin_scrub(MetadataServer& server,
                                                    std::optional<FileId> file, bool only_tell);
// Believes the data server's copies of a file (Scrubber::resolve()). kNotFound: no such data
// server; kInvalid: it has no current copy of it, or nobody else has.
[[nodiscard]] Result<MaintenanceReport> resolve_scrub(MetadataServer& server, FileId file,
                                                      const std::string& from);
[[nodiscard]] ScrubReport scrub_report(MetadataServer& server);

// Nothing when there was none since the process started.
[[nodiscard]] std::optional<RebalanceReport> rebalance_report(MetadataServer& server);

// Fills in how far data servers are with being left.
void add_leaving(MetadataServer& server, std::vector<DataServerReport>& reports);

// Nothing unless a data server takes another's place in the file's map.
[[nodiscard]] std::optional<MovingReport> moving_report(MetadataServer& server, FileId file);

}  // namespace weft::mds
