#include "layout/reliability.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "rpc/base/assert.h"

namespace weft::layout {
namespace {

// A chain of transient states and one absorbing ("lost"), with transitions between states at most
// `band` apart. State 0's mean time to absorption is had by eliminating the states from the last
// on. Rates are only ever added, multiplied and divided (Grassmann, Taksar, Heyman): the result
// keeps its precision where subtraction would leave none, and a loss in 10^15 repairs is that.
class Chain {
 public:
  Chain(std::size_t states, std::size_t band)
      : states_(states),
        band_(band),
        rates_(states * (2 * band + 1)),
        loss_(states),
        stay_(states, 1) {}

  void add(std::size_t from, std::size_t to, double rate) { rate_at(from, to) += rate; }
  void add_loss(std::size_t from, double rate) { loss_[from] += rate; }

  [[nodiscard]] double mean_time() && {
    for (std::size_t gone = states_ - 1; gone > 0; --gone) eliminate(gone);
    return stay_[0] / loss_[0];
  }

 private:
  double& rate_at(std::size_t from, std::size_t to) {
    WEFT_ASSERT(from + band_ >= to && to + band_ >= from);
    return rates_[from * (2 * band_ + 1) + (to + band_ - from)];
  }

  void eliminate(std::size_t gone) {
    const std::size_t first = gone > band_ ? gone - band_ : 0;
    double out = loss_[gone];
    for (std::size_t to = first; to < gone; ++to) out += rate_at(gone, to);
    for (std::size_t from = first; from < gone; ++from) {
      const double part = rate_at(from, gone) / out;
      if (part == 0) continue;
      loss_[from] += part * loss_[gone];
      stay_[from] += part * stay_[gone];
      for (std::size_t to = first; to < gone; ++to) {
        if (to != from) rate_at(from, to) += part * rate_at(gone, to);
      }
    }
  }

  std::size_t states_;
  std::size_t band_;
  std::vector<double> rates_;  // [from][to - from + band]
  std::vector<double> loss_;
  std::vector<double> stay_;  // numerator of the mean stay
};

struct Rates {
  double fail;    // of one server
  double repair;  // of one server
  double lone;    // of a leading server with bytes that only it has
};

// Groups with two copies: the state is how many groups have one server down.
double pairs(std::size_t groups, const Rates& rates) {
  Chain chain(groups + 1, 1);
  for (std::size_t down = 0; down <= groups; ++down) {
    const auto whole = static_cast<double>(groups - down);
    const auto degraded = static_cast<double>(down);
    if (down < groups) chain.add(down, down + 1, whole * (2 * rates.fail - rates.lone));
    if (down > 0) chain.add(down, down - 1, degraded * rates.repair);
    chain.add_loss(down, whole * rates.lone + degraded * rates.fail);
  }
  return std::move(chain).mean_time();
}

// Groups with three: how many have two down (major) and one down (minor).
double triples(std::size_t groups, const Rates& rates) {
  std::vector<std::size_t> begins;  // of the states with so many groups that have two down
  std::size_t states = 0;
  for (std::size_t two = 0; two <= groups; ++two) {
    begins.push_back(states);
    states += groups - two + 1;
  }
  const auto at = [&](std::size_t two, std::size_t one) { return begins[two] + one; };
  Chain chain(states, groups + 1);
  for (std::size_t two = 0; two <= groups; ++two) {
    for (std::size_t one = 0; one + two <= groups; ++one) {
      const std::size_t from = at(two, one);
      const auto whole = static_cast<double>(groups - one - two);
      const auto degraded = static_cast<double>(one);
      const auto last = static_cast<double>(two);
      if (one + two < groups) {
        chain.add(from, at(two, one + 1), whole * (3 * rates.fail - rates.lone));
      }
      if (one > 0) {
        chain.add(from, at(two, one - 1), degraded * rates.repair);
        chain.add(from, at(two + 1, one - 1), degraded * (2 * rates.fail - rates.lone));
      }
      if (two > 0) chain.add(from, at(two - 1, one + 1), last * 2 * rates.repair);
      chain.add_loss(from, (whole + degraded) * rates.lone + last * rates.fail);
    }
  }
  return std::move(chain).mean_time();
}

bool positive(double value) { return std::isfinite(value) && value > 0; }

}  // namespace

Result<ReliabilityResult> reliability(const ReliabilityInput& input) {
  if (input.groups < 1 || input.groups > kMaxPlannedGroups) {
    return fail(Errc::kInvalid, "1 to 256 groups");
  }
  if (input.copies < 1 || input.copies > 3) return fail(Errc::kInvalid, "1 to 3 copies");
  if (!positive(input.mttf_hours)) return fail(Errc::kInvalid, "MTTF is not positive");
  if (input.copies > 1 && !positive(input.mttr_hours)) {
    return fail(Errc::kInvalid, "MTTR is not positive");
  }
  if (!(input.duplicated >= 0 && input.duplicated <= 1)) {
    return fail(Errc::kInvalid, "P_c is not between 0 and 1");
  }
  const double fail_rate = 1 / input.mttf_hours;
  const Rates rates{fail_rate, input.copies > 1 ? 1 / input.mttr_hours : 0,
                    fail_rate * (1 - input.duplicated)};
  ReliabilityResult result;
  result.unmirrored_hours =
      input.mttf_hours / (static_cast<double>(input.groups) * static_cast<double>(input.copies));
  result.mttdl_hours = input.copies == 1   ? result.unmirrored_hours
                       : input.copies == 2 ? pairs(input.groups, rates)
                                           : triples(input.groups, rates);
  result.ratio = result.mttdl_hours / result.unmirrored_hours;
  return result;
}

Result<double> duplicated_part(double mttd_seconds, double mttw_seconds) {
  if (!std::isfinite(mttd_seconds) || mttd_seconds < 0 || !positive(mttw_seconds)) {
    return fail(Errc::kInvalid, "times to duplicate and between writes are to be positive");
  }
  return std::max(0.0, 1 - mttd_seconds / mttw_seconds);
}

double chance_of_loss(double mttdl_hours, double hours) {
  return -std::expm1(-hours / mttdl_hours);
}

}  // namespace weft::layout
