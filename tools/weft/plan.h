// weft plan: what a system would be like, computed.
//
// Threading: pure functions but for the commands, which print.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "layout/handle.h"
#include "layout/reliability.h"
#include "rpc/base/error.h"
#include "tools/weft/commands.h"

namespace weft::cli {

// Durations are seconds; 0: not given.
struct ReliabilityOptions {
  std::uint32_t groups = 1;
  std::uint32_t copies = 2;
  layout::Duplication protocol = layout::Duplication::kServerSync;
  double mttf = 0;
  double mttr = 0;            // or what it follows from:
  double data = 0;            // bytes of a server
  double rate = 0;            // bytes a second that repair copies
  double detect = 0;          // until repair begins
  double duplicate_time = 0;  // MTTD
  double write_interval = 0;  // MTTW
  bool paper = false;         // nothing of these: plan_paper.h
};

struct ReliabilityPlan {
  layout::ReliabilityInput input;
  layout::ReliabilityResult result;
  layout::Duplication protocol = layout::Duplication::kServerSync;
};

// kInvalid, naming the option, for what is missing, given twice over, or makes no model.
[[nodiscard]] Result<ReliabilityPlan> plan_reliability(const ReliabilityOptions& options);

[[nodiscard]] std::string reliability_text(const ReliabilityPlan& plan);
[[nodiscard]] nlohmann::ordered_json reliability_json(const ReliabilityPlan& plan);

[[nodiscard]] int plan_reliability_command(const Settings& settings,
                                           const ReliabilityOptions& options);

}  // namespace weft::cli
