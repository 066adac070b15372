// version --all: which versions a system's programs have.
//
// Threading: pure functions on values.
#pragma once

#include <string>
#include <vector>

#include "ganesha-fsal/admin/config_reports.h"
#include "ganesha-fsal/admin/source.h"
#include "rpc/xdr/describe_json.h"

namespace weft::cli {

struct Versions {
  std::string own;
  std::string metadata_server;
  std::vector<mds::DataServerReport> servers = {};
  mds::TargetsReport targets = {};
  bool too_old = false;  // the metadata server, to tell of targets
};

// Whose version is not known: "ds4", "tcp:t:1 of ds1", "targets of ds3".
[[nodiscard]] std::vector<std::string> unknown_versions(const Versions& versions);
// And all are known.
[[nodiscard]] bool all_the_same(const Versions& versions);
[[nodiscard]] std::string versions_text(const Versions& versions);
[[nodiscard]] Json versions_json(const Versions& versions);

}  // namespace weft::cli
