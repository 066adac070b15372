// The reports as text for people and as JSON for programs.
//
// Threading: pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "ganesha-fsal/admin/source.h"
#include "tools/weft/verify.h"

namespace weft::cli {

// What an administrator should look at, a sentence each: data servers that are not up or nearly
// full, recalls without an answer, and what the metadata server itself warns of.
[[nodiscard]] std::vector<std::string> problems(const ServerSnapshot& system);

[[nodiscard]] std::string status_text(const ServerSnapshot& system);
[[nodiscard]] std::string data_servers_text(const std::vector<mds::DataServerReport>& servers);
[[nodiscard]] std::string file_text(const mds::FileReport& file);
[[nodiscard]] std::string scrub_text(const mds::ScrubReport& scrub);
[[nodiscard]] std::string maintenance_text(const mds::MaintenanceReport& report);
[[nodiscard]] std::string policy_text(const mds::PolicyReport& report);
[[nodiscard]] std::string verify_text(const std::string& mount, const Judgement& judgement);

// JSON keeps the reports' field names; sizes are bytes, durations milliseconds.
[[nodiscard]] nlohmann::ordered_json status_json(const ServerSnapshot& system);
[[nodiscard]] nlohmann::ordered_json data_servers_json(
    const std::vector<mds::DataServerReport>& servers);
[[nodiscard]] nlohmann::ordered_json file_json(const mds::FileReport& file);
[[nodiscard]] nlohmann::ordered_json scrub_json(const mds::ScrubReport& scrub);
[[nodiscard]] nlohmann::ordered_json maintenance_json(const mds::MaintenanceReport& report);
[[nodiscard]] nlohmann::ordered_json policy_json(const mds::PolicyReport& report);
[[nodiscard]] nlohmann::ordered_json verify_json(const std::string& mount,
                                                 const Judgement& judgement);

}  // namespace weft::cli
