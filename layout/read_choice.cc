#include "layout/read_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "rpc/base/assert.h"

namespace weft::layout {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();
constexpr double kAlike = 0.85;  // of the best
constexpr double kSteps = 8;
constexpr double kClearGain = 1.1;

double left_by_others(const DeviceLoad& device, std::uint64_t others) {
  if (device.max == 0) return kUnlimited;
  return static_cast<double>(device.max - std::min(device.max, others));
}

// `turns` of them, to where the next one is served best (D'Hondt): no other way to share as many
// turns makes the copy that is loaded most, for what it has to spare, less loaded. The first of
// those that are alike is another for each stripe: a file's first units do not all go to one copy.
std::vector<std::uint8_t> turns_of(std::span<const double> spares, std::size_t turns,
                                   std::size_t stripe) {
  std::vector<std::uint8_t> chosen;
  std::vector<unsigned> given(spares.size());
  while (chosen.size() < turns) {
    std::size_t best = stripe % spares.size();
    for (std::size_t i = 1; i < spares.size(); ++i) {
      const std::size_t copy = (stripe + i) % spares.size();
      if (spares[copy] / (given[copy] + 1) > spares[best] / (given[best] + 1)) best = copy;
    }
    ++given[best];
    chosen.push_back(static_cast<std::uint8_t>(best));
  }
  return chosen;
}

}  // namespace

double spare_for_reading(const ReaderView& view, std::uint64_t part) {
  const auto without_served = [&](std::uint64_t used) {
    return used - std::min(used, view.served);
  };
  double spare = left_by_others(view.load.network, without_served(view.load.network.used));
  if (part > view.load.memory_free) {
    const double missing =
        1 - static_cast<double>(view.load.memory_free) / static_cast<double>(part);
    const std::uint64_t others =
        view.load.disk_others.value_or(without_served(view.load.disk.used));
    spare = std::min(spare, left_by_others(view.load.disk, others) / missing);
  }
  if (cpu_is_busy(view.load)) spare = std::min(spare, static_cast<double>(view.served));
  return spare;
}

std::vector<double> rounded_spares(std::span<const double> spares) {
  double best = 0;
  for (const double spare : spares) {
    if (spare != kUnlimited) best = std::max(best, spare);
  }
  const bool any_unlimited = std::ranges::find(spares, kUnlimited) != spares.end();
  if (best == 0 && any_unlimited) best = 1;
  std::vector<double> rounded;
  for (const double spare : spares) {
    const double of_best = spare == kUnlimited || best == 0 ? 1 : spare / best;
    rounded.push_back(spare < 0           ? 0
                      : of_best >= kAlike ? 1
                                          : std::round(of_best * kSteps) / kSteps);
  }
  return rounded;
}

Result<Spares> spares_of(const LayoutMap& map, const ReaderViewOf& view_of,
                         std::uint64_t file_bytes) {
  const std::size_t stripes = map.copies.front().ds_ids.size();
  Spares all;
  for (std::size_t stripe = 0; stripe < stripes; ++stripe) {
    std::vector<double> spares;
    for (const Copy& copy : map.copies) {
      const ReaderView* view =
          copy.state_of(stripe) == CopyState::kCurrent ? view_of(copy.ds_ids[stripe]) : nullptr;
      spares.push_back(view == nullptr ? -1 : spare_for_reading(*view, file_bytes / stripes));
    }
    if (std::ranges::all_of(spares, [](double spare) { return spare < 0; })) {
      return fail(Errc::kLayoutUnavailable,
                  "no copy of stripe " + std::to_string(stripe) + " can be read");
    }
    all.push_back(rounded_spares(spares));
  }
  return all;
}

ReadTurns share_reads(const Spares& spares, std::size_t max_servers) {
  const std::size_t most = std::min<std::size_t>(max_servers, kMaxServers) / spares.size();
  ReadTurns chosen;
  double use = 0;
  for (std::size_t turns = 1; turns <= std::clamp<std::size_t>(most, 1, kMostTurns); ++turns) {
    ReadTurns these;
    for (std::size_t stripe = 0; stripe < spares.size(); ++stripe) {
      these.push_back(turns_of(spares[stripe], turns, stripe));
    }
    const double used = use_of(parts_of(these, spares.front().size()), spares);
    if (!chosen.empty() && used < use * kClearGain) continue;
    use = used;
    chosen = std::move(these);
  }
  return chosen;
}

ReadTurns best_of_each(const Spares& spares) {
  ReadTurns turns;
  for (const auto& of : spares) {
    turns.push_back({static_cast<std::uint8_t>(std::ranges::max_element(of) - of.begin())});
  }
  return turns;
}

LayoutServers servers_in_turn(const LayoutMap& map, const ReadTurns& turns) {
  WEFT_ASSERT(turns.size() == map.copies.front().ds_ids.size());
  LayoutServers servers;
  servers.first_index = map.copies.front().first_index;
  for (std::size_t turn = 0; turn < turns.front().size(); ++turn) {
    for (std::size_t stripe = 0; stripe < turns.size(); ++stripe) {
      servers.ds_ids.push_back(map.copies[turns[stripe][turn]].ds_ids[stripe]);
    }
  }
  return servers;
}

ReadParts parts_of(const ReadTurns& turns, std::size_t copies) {
  ReadParts parts;
  for (const auto& of : turns) {
    std::vector<double>& stripe = parts.emplace_back(copies);
    for (const std::uint8_t copy : of) stripe[copy] += 1 / static_cast<double>(of.size());
  }
  return parts;
}

std::vector<double> parts_among_clients(std::span<const double> spares) {
  std::vector<double> parts;
  const double best = spares.empty() ? 0 : std::ranges::max(spares);
  double sum = 0;
  for (const double spare : spares) {
    parts.push_back(best == 0 ? 1 : spare >= best / 2 ? spare : 0);
    sum += parts.back();
  }
  for (double& part : parts) part /= sum;
  return parts;
}

double use_of(const ReadParts& parts, const Spares& spares) {
  if (parts.size() != spares.size()) return 0;
  double use = 0;
  for (std::size_t stripe = 0; stripe < parts.size(); ++stripe) {
    if (parts[stripe].size() != spares[stripe].size()) return 0;
    // Who reads the stripe is served as fast as by the copy that is loaded most.
    double rate = kUnlimited;
    for (std::size_t copy = 0; copy < parts[stripe].size(); ++copy) {
      if (parts[stripe][copy] > 0)
        rate = std::min(rate, spares[stripe][copy] / parts[stripe][copy]);
    }
    use += rate / std::accumulate(spares[stripe].begin(), spares[stripe].end(), 0.0);
  }
  return use / static_cast<double>(parts.size());
}

}  // namespace weft::layout
