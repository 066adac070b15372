// Blocks of a ganesha.conf that are Ganesha's own, and what may stand in them: names, flags,
// numbers with their ranges, and words, as in Ganesha's tables (src/support/exports.c,
// nfs_read_conf.c, src/log/log_functions.c), for Ganesha as it is built here
// (tools/dev/ganesha.sh).
//
// Threading: constants.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace weft::mds {

enum class GaneshaValue : std::uint8_t {
  kText,
  kFlag,
  kNumber,
  kSeconds,  // a number, too
  kWord,
  kWords,
  kClients,  // addresses, networks, names; may be given more than once
};

struct GaneshaKey {
  std::string_view name;
  GaneshaValue takes = GaneshaValue::kText;
  std::span<const std::string_view> words{};  // of kWord and kWords
  std::int64_t least = 0;                     // of numbers
  std::uint64_t most = 0;
};

struct GaneshaBlock {
  std::string_view name;
  std::span<const GaneshaKey> keys{};      // empty: not known here
  std::span<const GaneshaBlock> blocks{};  // in it; "FSAL" is known by nobody but the FSAL
  std::span<const GaneshaKey> shared{};    // keys that other blocks have, too
  std::span<const std::string_view> required{};
  bool many = false;  // of them beside each other
};

// In the file itself.
[[nodiscard]] std::span<const GaneshaBlock> ganesha_blocks();

}  // namespace weft::mds
