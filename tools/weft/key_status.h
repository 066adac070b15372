// Which servers and targets have which cluster keys, for who changes the key: whether the next step
// may begin.
//
// Threading: values and pure functions.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "ganesha-fsal/admin/key_reports.h"

namespace weft::cli {

struct KeyState {
  std::string key;           // its fingerprint
  std::size_t used = 0;      // by so many servers and targets
  std::size_t accepted = 0;  // likewise, those that use it included
  bool may_be_used = false;
  bool may_be_dropped = false;
};
// Of all keys that any server or target has. One that does not say which it has may use any, and
// accept none; if targets were not asked at all, there may be such.
[[nodiscard]] std::vector<KeyState> key_states(const mds::KeysReport& report);

[[nodiscard]] std::string keys_text(const mds::KeysReport& report);
[[nodiscard]] nlohmann::ordered_json keys_json(const mds::KeysReport& report);

}  // namespace weft::cli
