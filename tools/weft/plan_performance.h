// weft plan performance: how much a number of servers carries, in one tier or two.
//
// Threading: pure functions but for the command, which prints.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "layout/performance.h"
#include "rpc/base/error.h"
#include "tools/weft/commands.h"

namespace weft::cli {

struct PerformanceOptions {
  std::uint32_t servers = 0;
  layout::Workload work;  // its hit rates are taken unless data and memory are given
  layout::NodeModel node;
  std::uint32_t slow = 0;    // nodes of another kind, which are
  double slower = 1;         // so many times slower
  double data = 0;           // bytes that are read, evenly but for the hot part
  double memory = 0;         // bytes of cache a node has
  double target_memory = 0;  // bytes of cache a target has; 0: as a node
  double hot_accesses = 0;   // the part of accesses that go to
  double hot_data = 0;       // this part of the data
  bool io_cache = true;      // whether I/O nodes with targets have a cache (weft-ds: cache.size)
  double rate = 0;           // requests a second for response times; 0: none asked for
  bool paper = false;        // nothing of these: plan_paper.h
};

struct Arrangement {
  layout::Tiers tiers;
  layout::Workload work;  // with the hit rates it has here
  layout::Performance performance;
  std::optional<double> response;  // seconds, at the rate asked for; none beyond saturation
};

struct PerformancePlan {
  PerformanceOptions options;
  std::vector<Arrangement> arrangements;  // one tier first
  std::size_t best = 0;                   // of them, by saturation
};

// kInvalid, naming the option, for what is missing or makes no model.
[[nodiscard]] Result<PerformancePlan> plan_performance(const PerformanceOptions& options);

[[nodiscard]] std::string performance_text(const PerformancePlan& plan);
[[nodiscard]] nlohmann::ordered_json performance_json(const PerformancePlan& plan);

[[nodiscard]] int plan_performance_command(const Settings& settings,
                                           const PerformanceOptions& options);

}  // namespace weft::cli
