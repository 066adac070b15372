// What goes on now: rates between two reports.
//
// Threading: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ganesha-fsal/admin/source.h"
#include "rpc/xdr/describe_json.h"

namespace weft::cli {

struct ServerRates {
  std::uint32_t id = 0;
  std::string name;
  mds::DsState state = mds::DsState::kUnknown;
  std::uint32_t cpu_busy_permille = 0;
  double read_bytes = 0;  // a second, as all that follows
  double written_bytes = 0;
  double reads = 0;
  double writes = 0;
  double errors = 0;
};
struct Rates {
  double seconds = 0;  // that they are of
  std::vector<ServerRates> servers;
  double mds_reads = 0;  // a second, as all that follows; for clients without layouts
  double mds_writes = 0;
  double layouts = 0;
  double commits = 0;  // of the metadata store
  std::uint32_t clients = 0;
  std::uint32_t layouts_out = 0;
};

// A server that was started anew in between has what it has counted since; one that is not in
// `before` has none. Requires: seconds > 0.
[[nodiscard]] Rates rates_between(const mds::SystemReport& before, const mds::SystemReport& after,
                                  double seconds);
[[nodiscard]] std::string rates_text(const Rates& rates);
[[nodiscard]] Json rates_json(const Rates& rates);

}  // namespace weft::cli
