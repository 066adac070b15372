// weft plan performance --paper and weft plan reliability --paper: what the models say of the
// systems that iPVFS's and CEFT-PVFS's authors looked at.
//
// iPVFS: 18 nodes, in one tier (PVFS) and as 6 x 2, 3 x 5 and 2 x 8 (I/O nodes, targets of each),
// which read 64 and 640 KiB; each tier's caches hit equally often, or as follows from 6144 MB of
// data and their sizes (Figure 8). CEFT-PVFS: 8 pairs, a year to a failure, a day to repair.
//
// Threading: pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace weft::cli {

[[nodiscard]] nlohmann::ordered_json paper_performance();
[[nodiscard]] nlohmann::ordered_json paper_reliability();
// Of one of these, as tables.
[[nodiscard]] std::string paper_text(const nlohmann::ordered_json& tables);

}  // namespace weft::cli
