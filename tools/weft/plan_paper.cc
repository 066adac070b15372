#include "tools/weft/plan_paper.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "layout/performance.h"
#include "layout/reliability.h"
#include "tools/weft/table.h"

namespace weft::cli {
namespace {

using layout::Tiers;
using layout::Workload;
using Json = nlohmann::ordered_json;

struct System {
  std::string_view name;
  Tiers tiers;
};
constexpr std::array<System, 4> kSystems{
    {{"PVFS 18", {18, 0}}, {"6 x 2", {6, 2}}, {"3 x 5", {3, 5}}, {"2 x 8", {2, 8}}}};
constexpr double kKiB = 1024;
constexpr double kDataMib = 6144;

std::string number(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

Workload reads(double request, double io_hits, double target_hits) {
  return {.request = request, .io_hits = io_hits, .target_hits = target_hits};
}

double carried(const Tiers& tiers, const Workload& work) {
  return layout::saturation(tiers, work, {}).value().saturation;
}

// A table: its title, names of its columns, rows of text and numbers.
Json table(std::string title, std::vector<std::string> columns, Json rows) {
  return {{"title", std::move(title)}, {"columns", std::move(columns)}, {"rows", std::move(rows)}};
}

std::vector<std::string> with_systems(std::string first) {
  std::vector<std::string> columns{std::move(first)};
  for (const System& system : kSystems) columns.emplace_back(system.name);
  return columns;
}

Json saturation_table(double request) {
  Json rows = Json::array();
  for (const double hits : {0.0, .2, .4, .5, .6, .8}) {
    Json row{hits};
    for (const auto& [name, tiers] : kSystems) {
      row.push_back(std::round(carried(tiers, reads(request, hits, hits))));
    }
    rows.push_back(std::move(row));
  }
  return table("requests of " + number("%.0f", request / kKiB) + " KiB a second at saturation",
               with_systems("hits"), std::move(rows));
}

Json response_table(double request, double hits, std::vector<double> rates) {
  Json rows = Json::array();
  for (const double rate : rates) {
    Json row{rate};
    for (const auto& [name, tiers] : kSystems) {
      const auto time = layout::response(tiers, reads(request, hits, hits), {}, rate);
      row.push_back(time ? Json(std::round(*time * 1e5) / 100) : Json(nullptr));
    }
    rows.push_back(std::move(row));
  }
  return table(
      "response, ms, " + number("%.0f", request / kKiB) + " KiB, hits " + number("%.1f", hits),
      with_systems("requests/s"), std::move(rows));
}

// The part of hits in which 6 x 2 carries more than one tier, and by how much at best.
Json window_table() {
  constexpr int kSteps = 1000;
  Json rows = Json::array();
  for (const double request : {64 * kKiB, 640 * kKiB}) {
    double first = 1;
    double last = 0;
    double best = 0;
    for (int i = 0; i < kSteps; ++i) {
      const double hits = static_cast<double>(i) / kSteps;
      const Workload work = reads(request, hits, hits);
      const double ratio = carried(kSystems[1].tiers, work) / carried(kSystems[0].tiers, work);
      if (ratio > 1) {
        first = std::min(first, hits);
        last = hits;
      }
      best = std::max(best, ratio);
    }
    rows.push_back(
        Json{number("%.0f KiB", request / kKiB), first, last, std::round(best * 100) / 100});
  }
  return table("6 x 2 carries more than one tier while hits are", {"request", "from", "to", "best"},
               std::move(rows));
}

// LRU by Dan and Towsley in each tier, for itself, as in the paper; 256 MB a node in one tier.
double hits_of(double cached_mib) {
  const std::array parts{layout::Popularity{.5, kDataMib / 2},
                         layout::Popularity{.5, kDataMib / 2}};
  return layout::lru_hits(parts, static_cast<std::uint32_t>(cached_mib)).value();
}

Json dynamic_table() {
  Json rows = Json::array();
  const auto add = [&](const System& system, double io_mib, double target_mib) {
    const Tiers& tiers = system.tiers;
    const double io = hits_of(io_mib * tiers.io_nodes);
    const double below = hits_of(target_mib * tiers.io_nodes * tiers.targets);
    const Workload work = reads(64 * kKiB, io, below);
    rows.push_back(Json{system.name, io_mib, target_mib,
                        std::round((1 - (1 - io) * (1 - below)) * 1000) / 1000,
                        std::round(carried(tiers, work))});
  };
  add(kSystems[0], 256, 0);
  for (const auto& [io_mib, target_mib] :
       {std::pair{656.0, 156.0}, std::pair{656.0, 196.0}, std::pair{724.0, 156.0}}) {
    for (std::size_t i = 1; i < kSystems.size(); ++i) add(kSystems[i], io_mib, target_mib);
  }
  return table("Figure 8: hits that follow from the caches, 6144 MB read evenly, 64 KiB",
               {"system", "I/O cache, MB", "target's, MB", "hits of both", "requests/s"},
               std::move(rows));
}

}  // namespace

Json paper_performance() {
  return {
      {"paper", "iPVFS"},
      {"tables",
       {saturation_table(64 * kKiB), saturation_table(640 * kKiB), window_table(),
        response_table(64 * kKiB, .5, {100, 1000, 2000, 3000, 4000, 4500, 5000, 6000}),
        response_table(640 * kKiB, .5, {10, 100, 200, 300, 400, 450, 500, 550}), dynamic_table()}}};
}

Json paper_reliability() {
  constexpr double kYearHours = 8760;
  constexpr double kDayHours = 24;
  Json rows = Json::array();
  for (const double part : {1.0, .99, .95, 0.0}) {
    const auto result = layout::reliability({.groups = 8,
                                             .copies = 2,
                                             .mttf_hours = kYearHours,
                                             .mttr_hours = kDayHours,
                                             .duplicated = part})
                            .value();
    rows.push_back(Json{part, std::round(result.mttdl_hours), std::round(result.ratio)});
  }
  return {{"paper", "CEFT-PVFS"},
          {"tables",
           {table("8 pairs against 16 servers without mirrors, MTTF a year, MTTR a day",
                  {"duplicated", "MTTDL, hours", "times as long"}, std::move(rows))}}};
}

std::string paper_text(const Json& tables) {
  std::string text;
  for (const Json& one : tables["tables"]) {
    if (!text.empty()) text += "\n";
    text += one["title"].get<std::string>() + "\n";
    Table lines(one["columns"].get<std::vector<std::string>>());
    for (const Json& row : one["rows"]) {
      std::vector<std::string> cells;
      for (const Json& cell : row) {
        cells.push_back(cell.is_string() ? cell.get<std::string>()
                        : cell.is_null() ? "saturated"
                                         : number("%.6g", cell.get<double>()));
      }
      lines.add(cells);
    }
    text += lines.text();
  }
  return text;
}

}  // namespace weft::cli
