// What an administrator should know of a system, for `weft status`, `weft health` and the status
// page: a sentence or two each, with what to do, and the word by which scripts know it.
//
// Threading: pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ganesha-fsal/admin/source.h"
#include "rpc/xdr/describe_json.h"

namespace weft::mds {

struct Problem {
  std::string_view code;  // of health_codes()
  std::string text;
};

struct HealthCode {
  std::string_view code;
  std::string_view means;
  bool note = false;  // it is told of, and the system is healthy all the same
};
// All that there are; weft(1) lists them.
[[nodiscard]] std::span<const HealthCode> health_codes();
[[nodiscard]] bool is_note(std::string_view code);

// Data servers that are not up or nearly full, recalls without an answer, copies and blocks that
// are lost or differ, and what the metadata server itself warns of.
[[nodiscard]] std::vector<Problem> health(const SystemReport& system);
// Their texts.
[[nodiscard]] std::vector<std::string> problems(const SystemReport& system);
// The report, and what to_json() does not say by itself: the problems, an array.
[[nodiscard]] Json status_json(const SystemReport& system);

}  // namespace weft::mds
