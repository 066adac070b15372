// Blocks of a ganesha.conf that are Ganesha's own, and what may stand in them: names, flags,
// numbers and words, as in Ganesha's tables (src/support/exports.c, nfs_read_conf.c). Ganesha
// itself passes over a block that it does not know, and so would serve without what stands there.
//
// What stands in a block without keys here, and whether a number is in its range, Ganesha tells.
//
// Threading: pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ganesha-fsal/config/conf_reader.h"

namespace weft::mds {

struct GaneshaKey {
  std::string_view name;
  std::span<const std::string_view> words{};  // that its value is one of; empty: any
  bool many = false;                          // of them
};

struct GaneshaBlock {
  std::string_view name;
  std::span<const GaneshaKey> keys{};      // empty: not known here
  std::span<const GaneshaBlock> blocks{};  // in it; "FSAL" is known by nobody but the FSAL
  std::span<const GaneshaKey> shared{};    // keys that other blocks have, too
};

// In the file itself.
[[nodiscard]] std::span<const GaneshaBlock> ganesha_blocks();

// One line each, "FILE:LINE: what": CLIENT blocks that change nothing, in an EXPORT that everybody
// may mount. Ganesha takes what they do not say from the EXPORT, so they keep nobody out.
[[nodiscard]] std::vector<std::string> idle_client_blocks(const ConfBlock& conf);

// Every name is one that there is, and every word. kInvalid.
[[nodiscard]] Result<> check_ganesha_blocks(const ConfBlock& conf);
// An FSAL block names WEFT, or an FSAL that comes with Ganesha as it is built here
// (tools/dev/ganesha.sh). kInvalid.
[[nodiscard]] Result<> check_fsal_name(const ConfBlock& fsal);

}  // namespace weft::mds
