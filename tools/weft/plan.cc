#include "tools/weft/plan.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/weft/output.h"
#include "tools/weft/plan_paper.h"
#include "tools/weft/table.h"

namespace weft::cli {
namespace {

using layout::Duplication;

constexpr double kHour = 3600;
constexpr double kYearHours = 365 * 24;

bool answers_early(Duplication protocol) {
  return protocol == Duplication::kServerAsync || protocol == Duplication::kClientAsync;
}

std::string number(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string human_years(double hours) {
  const double years = hours / kYearHours;
  if (years >= 1e6) return number("%.3g y", years);
  if (years >= 100) return human_count(static_cast<std::uint64_t>(std::llround(years))) + " y";
  if (years >= 1) return number("%.3g y", years);
  return number("%.3g d", hours / 24);
}

// Of hours; what no clock counts is cut off.
std::uint64_t milliseconds(double hours) {
  return static_cast<std::uint64_t>(std::min(hours * kHour * 1000, 1e18));
}

std::string percent(double chance) {
  return chance != 0 && chance < 1e-4 ? number("%.2e", chance) : number("%.3g%%", chance * 100);
}

Result<double> repair_seconds(const ReliabilityOptions& options) {
  const bool derived = options.data > 0 || options.rate > 0 || options.detect > 0;
  if (options.mttr > 0 && derived) {
    return fail(Errc::kInvalid, "--mttr, or --data with --rate, not both");
  }
  if (options.mttr > 0) return options.mttr;
  if (options.data <= 0 || options.rate <= 0) {
    return fail(Errc::kInvalid, "--mttr is needed, or --data with --rate");
  }
  return options.detect + options.data / options.rate;
}

Result<double> duplicated(const ReliabilityOptions& options) {
  const bool given = options.duplicate_time > 0 || options.write_interval > 0;
  if (!answers_early(options.protocol)) {
    if (given) {
      return fail(Errc::kInvalid,
                  "with a synchronous protocol nothing waits to be duplicated: no "
                  "--duplicate-time, no --write-interval");
    }
    return 1;
  }
  if (options.duplicate_time <= 0 || options.write_interval <= 0) {
    return fail(Errc::kInvalid,
                "an asynchronous protocol needs --duplicate-time and --write-interval");
  }
  return layout::duplicated_part(options.duplicate_time, options.write_interval);
}

}  // namespace

Result<ReliabilityPlan> plan_reliability(const ReliabilityOptions& options) {
  ReliabilityPlan plan;
  plan.input.groups = options.groups;
  plan.input.copies = options.copies;
  plan.input.mttf_hours = options.mttf / kHour;
  plan.protocol = options.copies == 1 ? Duplication::kNone : options.protocol;
  if (options.copies > 1) {
    const auto repair = repair_seconds(options);
    if (!repair) return std::unexpected(repair.error());
    plan.input.mttr_hours = *repair / kHour;
    const auto part = duplicated(options);
    if (!part) return std::unexpected(part.error());
    plan.input.duplicated = *part;
  }
  auto result = layout::reliability(plan.input);
  if (!result) return pass(result);
  plan.result = *result;
  return plan;
}

std::string reliability_text(const ReliabilityPlan& plan) {
  const auto& [input, result, protocol] = plan;
  Table table({"SYSTEM", "MTTDL", "LOSS IN 1 YEAR", "LOSS IN 5 YEARS"});
  const auto row = [&](const std::string& name, double hours) {
    table.add({name, human_years(hours), percent(layout::chance_of_loss(hours, kYearHours)),
               percent(layout::chance_of_loss(hours, 5 * kYearHours))});
  };
  const std::string servers = std::to_string(input.groups * input.copies) + " servers";
  if (input.copies > 1) {
    row(std::string(to_string(protocol)) + ", " + std::to_string(input.copies) + " copies, " +
            servers,
        result.mttdl_hours);
  }
  row("unmirrored, " + servers, result.unmirrored_hours);
  std::string text = table.text();
  if (input.copies == 1) return text;
  text += "\nWith mirrors " + number("%.4g", result.ratio) + " times as long (MTTF " +
          human_years(input.mttf_hours) + ", MTTR " +
          human_duration(milliseconds(input.mttr_hours));
  if (input.duplicated < 1) {
    text += ", everything duplicated " + number("%.6g%%", input.duplicated * 100) + " of the time";
  }
  return text + ").\n";
}

nlohmann::ordered_json reliability_json(const ReliabilityPlan& plan) {
  const auto& [input, result, protocol] = plan;
  return {{"groups", input.groups},
          {"copies", input.copies},
          {"protocol", to_string(protocol)},
          {"mttf_hours", input.mttf_hours},
          {"mttr_hours", input.mttr_hours},
          {"duplicated", input.duplicated},
          {"mttdl_hours", result.mttdl_hours},
          {"unmirrored_mttdl_hours", result.unmirrored_hours},
          {"ratio", result.ratio},
          {"loss_in_1_year", layout::chance_of_loss(result.mttdl_hours, kYearHours)},
          {"loss_in_5_years", layout::chance_of_loss(result.mttdl_hours, 5 * kYearHours)}};
}

int plan_reliability_command(const Settings& settings, const ReliabilityOptions& options) {
  if (options.paper) {
    const auto tables = paper_reliability();
    settings.json ? print(tables) : print(paper_text(tables));
    return kExitGood;
  }
  const auto plan = plan_reliability(options);
  if (!plan) return complain(plan.error().text);
  settings.json ? print(reliability_json(*plan)) : print(reliability_text(*plan));
  return kExitGood;
}

}  // namespace weft::cli
