// The reports as text for people, and as JSON for programs: the fields as they are described, sizes
// in bytes, durations in milliseconds.
//
// Threading: pure functions.
#pragma once

#include <string>
#include <vector>

#include "ganesha-fsal/admin/backup_reports.h"
#include "ganesha-fsal/admin/health.h"
#include "ganesha-fsal/admin/source.h"
#include "rpc/xdr/describe_json.h"
#include "tools/weft/verify.h"

namespace weft::cli {

using mds::health;
using mds::problems;
using mds::status_json;

[[nodiscard]] std::string status_text(const mds::SystemReport& system);
[[nodiscard]] std::string data_servers_text(const std::vector<mds::DataServerReport>& servers);
[[nodiscard]] std::string file_text(const mds::FileReport& file);
[[nodiscard]] std::string scrub_text(const mds::ScrubReport& scrub);
// Of times by UTC.
[[nodiscard]] std::string restored_text(const mds::RestoredReport& report);
[[nodiscard]] std::string maintenance_text(const mds::MaintenanceReport& report);
[[nodiscard]] std::string policy_text(const mds::PolicyReport& report);
[[nodiscard]] std::string verify_text(const std::string& mount, const Judgement& judgement);

[[nodiscard]] Json data_servers_json(const std::vector<mds::DataServerReport>& servers);
[[nodiscard]] Json policy_json(const mds::PolicyReport& report);
// What an option's text says: a boolean, a number, a size in bytes or a duration in seconds, if
// `like`, a text of the same option, is one; otherwise the text.
[[nodiscard]] Json option_json(const std::string& text, const std::string& like);
[[nodiscard]] Json verify_json(const std::string& mount, const Judgement& judgement);

}  // namespace weft::cli
