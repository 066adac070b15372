#include "tools/weft/plan_performance.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/weft/output.h"
#include "tools/weft/plan_paper.h"
#include "tools/weft/table.h"

namespace weft::cli {
namespace {

using layout::Popularity;
using layout::Tiers;
using layout::Workload;

constexpr double kBlocks = 20000;  // that the data counts as; finer makes no visible difference

std::string number(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string rate_text(double rate) {
  return rate < 1e15 ? human_count(static_cast<std::uint64_t>(rate)) : number("%.3g", rate);
}

std::string name_of(const Tiers& tiers) {
  if (tiers.targets == 0) return "one tier of " + std::to_string(tiers.io_nodes);
  return "two: " + std::to_string(tiers.io_nodes) + " x " + std::to_string(tiers.targets);
}

std::vector<Popularity> parts_of(const PerformanceOptions& options) {
  if (options.hot_accesses <= 0) return {{1, kBlocks}};
  return {{options.hot_accesses, options.hot_data * kBlocks},
          {1 - options.hot_accesses, (1 - options.hot_data) * kBlocks}};
}

// The hit rates of caches that hold `options.memory` a node. The targets' caches see what missed at
// the I/O nodes.
Result<Workload> with_hits(const PerformanceOptions& options, const Tiers& tiers) {
  Workload work = options.work;
  const bool io_cache = tiers.targets == 0 || options.io_cache;
  if (!io_cache) work.io_hits = 0;
  if (options.data <= 0) return work;
  const auto blocks = [&](double memory) {
    return static_cast<std::uint32_t>(std::lround(std::min(1.0, memory / options.data) * kBlocks));
  };
  const std::uint32_t cached = blocks(io_cache ? options.memory * tiers.io_nodes : 0);
  const auto hits = layout::lru_hits(parts_of(options), cached);
  if (!hits) return std::unexpected(hits.error());
  work.io_hits = *hits;
  if (tiers.targets == 0) return work;
  const double of_target = options.target_memory > 0 ? options.target_memory : options.memory;
  const auto below = layout::lru_hits_below(parts_of(options), cached,
                                            blocks(of_target * tiers.io_nodes * tiers.targets));
  if (!below) return std::unexpected(below.error());
  work.target_hits = *below;
  return work;
}

// Slow nodes are targets where there are as many of these: I/O nodes do more.
layout::NodeModels nodes_of(const PerformanceOptions& options, const Tiers& tiers) {
  if (options.slow == 0) return options.node;
  const layout::NodeModel slow = options.node.slower(options.slower);
  if (options.slow > tiers.io_nodes * tiers.targets) return slow;
  return {options.node, slow};
}

Result<> validate(const PerformanceOptions& options) {
  if (options.servers == 0) return fail(Errc::kInvalid, "--servers is 1 or more");
  if (options.slow > options.servers) return fail(Errc::kInvalid, "--slow is --servers at most");
  if ((options.slow > 0) != (options.slower > 1)) {
    return fail(Errc::kInvalid, "--slow and --slower belong together");
  }
  if ((options.data > 0) != (options.memory > 0)) {
    return fail(Errc::kInvalid, "--data and --memory belong together");
  }
  if (options.target_memory > 0 && options.memory <= 0) {
    return fail(Errc::kInvalid, "--target-memory needs --data and --memory");
  }
  if (options.data > 0 && (options.work.io_hits > 0 || options.work.target_hits > 0)) {
    return fail(Errc::kInvalid, "--hits, or --data with --memory, not both");
  }
  if ((options.hot_accesses > 0) != (options.hot_data > 0)) {
    return fail(Errc::kInvalid, "--hot-accesses and --hot-data belong together");
  }
  if (options.hot_accesses > 0 && options.data <= 0) {
    return fail(Errc::kInvalid, "--hot-accesses needs --data and --memory");
  }
  if (options.hot_accesses >= 1 || options.hot_data >= 1) {
    return fail(Errc::kInvalid, "--hot-accesses and --hot-data are below 1");
  }
  return {};
}

// The model has groups of any size. weft-ds takes one target, or a parity group of these members.
constexpr std::uint32_t kLargestGroup = 32;

}  // namespace

Result<PerformancePlan> plan_performance(const PerformanceOptions& options) {
  if (auto valid = validate(options); !valid) return pass(valid);
  PerformancePlan plan{options, {}, 0};
  for (const Tiers& tiers : layout::arrangements(options.servers)) {
    if (tiers.targets > kLargestGroup) continue;
    const auto work = with_hits(options, tiers);
    if (!work) return std::unexpected(work.error());
    const layout::NodeModels nodes = nodes_of(options, tiers);
    const auto performance = layout::saturation(tiers, *work, nodes);
    if (!performance) return std::unexpected(performance.error());
    Arrangement arrangement{tiers, *work, *performance, std::nullopt};
    if (options.rate > 0 && options.rate < performance->saturation) {
      arrangement.response = layout::response(tiers, *work, nodes, options.rate).value();
    }
    plan.arrangements.push_back(arrangement);
  }
  const auto best = std::ranges::max_element(
      plan.arrangements, {}, [](const Arrangement& one) { return one.performance.saturation; });
  plan.best = static_cast<std::size_t>(best - plan.arrangements.begin());
  return plan;
}

std::string performance_text(const PerformancePlan& plan) {
  const bool timed = plan.options.rate > 0;
  std::vector<std::string> head{"ARRANGEMENT", "HITS", "REQUESTS/S", "MIB/S", "BOUND BY"};
  if (timed) head.emplace_back("RESPONSE");
  Table table(head);
  for (const auto& [tiers, work, performance, response] : plan.arrangements) {
    std::string hits = number("%.1f%%", work.io_hits * 100);
    if (tiers.targets > 0) hits += ", " + number("%.1f%%", work.target_hits * 100);
    std::vector<std::string> row{name_of(tiers), hits, rate_text(performance.saturation),
                                 rate_text(performance.saturation * work.request / (1 << 20)),
                                 std::string(to_string(performance.bound_by))};
    if (timed) row.push_back(response ? number("%.3g ms", *response * 1e3) : "saturated");
    table.add(row);
  }
  std::string text = table.text();
  if (plan.arrangements.size() < 2) return text;
  const Arrangement& flat = plan.arrangements.front();
  const Arrangement& best = plan.arrangements[plan.best];
  if (plan.best == 0) return text + "\nTwo tiers do not pay: one carries the most.\n";
  return text + "\nTwo tiers pay: " + std::to_string(best.tiers.io_nodes) + " I/O nodes with " +
         std::to_string(best.tiers.targets) + (best.tiers.targets == 1 ? " target" : " targets") +
         " each carry " +
         number("%.2f", best.performance.saturation / flat.performance.saturation) +
         " times what one tier does.\n";
}

nlohmann::ordered_json performance_json(const PerformancePlan& plan) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [tiers, work, performance, response] : plan.arrangements) {
    nlohmann::ordered_json row{{"io_nodes", tiers.io_nodes},
                               {"targets", tiers.targets},
                               {"io_hits", work.io_hits},
                               {"target_hits", tiers.targets > 0 ? work.target_hits : 0},
                               {"requests_per_second", performance.saturation},
                               {"bytes_per_second", performance.saturation * work.request},
                               {"bound_by", to_string(performance.bound_by)}};
    if (plan.options.rate > 0) {
      row["response_ms"] =
          response ? nlohmann::ordered_json(*response * 1e3) : nlohmann::ordered_json(nullptr);
    }
    list.push_back(std::move(row));
  }
  return {{"servers", plan.options.servers},
          {"request_bytes", std::llround(plan.options.work.request)},
          {"arrangements", list},
          {"two_tiers_pay", plan.best != 0}};
}

int plan_performance_command(const Settings& settings, const PerformanceOptions& options) {
  if (options.paper) {
    const auto tables = paper_performance();
    settings.json ? print(tables) : print(paper_text(tables));
    return kExitGood;
  }
  const auto plan = plan_performance(options);
  if (!plan) return complain(plan.error().text);
  settings.json ? print(performance_json(*plan)) : print(performance_text(*plan));
  return kExitGood;
}

}  // namespace weft::cli
