// How long mirrored data is likely to last: the Markov model of CEFT-PVFS (Zhu et al.), for one to
// three copies.
//
// N groups of k servers, each group independent of the others. A server fails at the rate
// lambda = 1 / MTTF and is repaired, alone, at mu = 1 / MTTR. A group is lost when all its servers
// are down at once; or when its leading server fails while it holds bytes that were acknowledged
// and not yet duplicated, of which the chance is 1 - P_c. Protocols that answer only when
// every copy is written have P_c = 1; with those that answer before,
//
//   P_c = 1 - MTTD / MTTW     mean time to duplicate over mean time between writes
//
// MTTDL is the mean time until the first group is lost. For k = 2, N = 1 and P_c = 1 it is
// (3 lambda + mu) / (2 lambda^2).
//
// It is what the model says, no more: independent failures at a constant rate. Servers that share a
// rack, a batch of disks or a bug fail together more often.
//
// Threading: plain values and pure functions.
#pragma once

#include <cstdint>

#include "rpc/base/error.h"

namespace weft::layout {

struct ReliabilityInput {
  std::uint32_t groups = 1;
  std::uint32_t copies = 2;  // 1 to 3
  double mttf_hours = 0;     // of one server
  double mttr_hours = 0;     // until the lost server's copies are whole again; unused with one copy
  double duplicated = 1;     // P_c
};

struct ReliabilityResult {
  double mttdl_hours = 0;
  double unmirrored_hours = 0;  // of as many servers without mirrors
  double ratio = 0;             // the first over the second
};

constexpr std::uint32_t kMaxPlannedGroups = 256;

// kInvalid for what makes no model: no or too many groups or copies, times that are not positive
// and finite, P_c outside 0 to 1.
[[nodiscard]] Result<ReliabilityResult> reliability(const ReliabilityInput& input);

// P_c. kInvalid unless both times are finite, the first not negative and the second positive. Below
// 0 (duplication never catches up) is 0.
[[nodiscard]] Result<double> duplicated_part(double mttd_seconds, double mttw_seconds);

// The chance that something is lost within `hours`, 0 to 1.
[[nodiscard]] double chance_of_loss(double mttdl_hours, double hours);

}  // namespace weft::layout
