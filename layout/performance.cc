#include "layout/performance.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace weft::layout {
namespace {

constexpr std::size_t kResources = 5;

// One kind of resource: how long a request's part keeps it busy, and how many parts of a request
// each instance gets (on average, with balanced load).
struct Station {
  double service = 0;  // seconds for a part
  double visits = 0;   // parts a request

  [[nodiscard]] double busy() const { return service * visits; }
};

struct Stations {
  std::array<Station, kResources> at;
  double disk_bytes = 0;

  Station& operator[](Resource resource) { return at[static_cast<std::size_t>(resource)]; }
  const Station& operator[](Resource resource) const {
    return at[static_cast<std::size_t>(resource)];
  }
};

bool positive(double value) { return std::isfinite(value) && value > 0; }
bool chance(double value) { return value >= 0 && value <= 1; }

Result<> validate(const Tiers& tiers, const Workload& work, const NodeModel& node) {
  if (tiers.io_nodes == 0) return fail(Errc::kInvalid, "no I/O node");
  if (!positive(work.request) || !positive(work.unit)) {
    return fail(Errc::kInvalid, "request and stripe unit are to be positive");
  }
  if (!chance(work.io_hits) || !chance(work.target_hits) || !chance(work.writes)) {
    return fail(Errc::kInvalid, "hit rates and the part of writes are 0 to 1");
  }
  if (work.copies == 0) return fail(Errc::kInvalid, "no copy");
  if (!positive(node.network) || !positive(node.cache) || !positive(node.disk) ||
      !(std::isfinite(node.seek) && node.seek >= 0) ||
      !(std::isfinite(node.rotation) && node.rotation >= 0)) {
    return fail(Errc::kInvalid, "speeds are to be positive");
  }
  return {};
}

// Disk operations of a write for one of a plain disk's.
double parity_cost(const Tiers& tiers, double bytes, double unit) {
  const double targets = tiers.targets;
  if (tiers.targets < 2) return 1;
  if (tiers.targets == 2 || bytes >= (targets - 1) * unit) return targets / (targets - 1);
  return 4;  // old data, old parity, new data, new parity
}

// The part of `count` servers a request of `bytes` visits.
double visited(double bytes, double unit, double count) {
  return std::min(std::ceil(bytes / unit) / count, 1.0);
}

Stations stations_of(const Tiers& tiers, const Workload& work, const NodeModel& node) {
  Stations stations;
  const double reads = 1 - work.writes;
  const double part = visited(work.request, work.unit, tiers.io_nodes);
  const double bytes = work.request / (part * tiers.io_nodes);
  const bool flat = tiers.targets == 0;
  const double done = flat ? reads + work.writes * work.copies : 1;
  stations[Resource::kIoNetwork] = {bytes / node.network, part * done};
  stations[Resource::kIoCache] = {bytes / node.cache, part * done};
  const double misses = reads * (1 - work.io_hits);
  if (flat) {
    stations.disk_bytes = bytes;
    stations[Resource::kDisk] = {disk_moments(node, bytes).mean,
                                 part * (misses + work.writes * work.copies)};
    return stations;
  }
  const double target_part = visited(bytes, work.unit, tiers.targets);
  const double target_bytes = bytes / (target_part * tiers.targets);
  const double writes = work.writes * parity_cost(tiers, bytes, work.unit);
  const double visits = part * target_part;
  stations.disk_bytes = target_bytes;
  stations[Resource::kTargetNetwork] = {target_bytes / node.network, visits * (misses + writes)};
  stations[Resource::kTargetCache] = {target_bytes / node.cache, visits * (misses + writes)};
  stations[Resource::kDisk] = {disk_moments(node, target_bytes).mean,
                               visits * (misses * (1 - work.target_hits) + writes)};
  return stations;
}

// The arm's way is a root of the distance between two places drawn evenly from [0, 1]:
// E[sqrt x] = 8/15 and E[x] = 1/3 of such distances.
double least_seek(const NodeModel& node) { return std::min(kLeastSeek, node.seek); }
double seek_stretch(const NodeModel& node) { return (node.seek - least_seek(node)) / (8.0 / 15); }

// Mean time at an M/M/1 queue.
double waited(const Station& station, double rate) {
  return station.service / (1 - rate * station.busy());
}

}  // namespace

std::string_view to_string(Resource resource) {
  switch (resource) {
    case Resource::kIoNetwork: return "network of the I/O nodes";
    case Resource::kIoCache: return "cache of the I/O nodes";
    case Resource::kTargetNetwork: return "network of the targets";
    case Resource::kTargetCache: return "cache of the targets";
    case Resource::kDisk: return "disks";
  }
  return "unknown";
}

double seek_time(const NodeModel& node, double distance) {
  return least_seek(node) + seek_stretch(node) * std::sqrt(distance);
}

Moments disk_moments(const NodeModel& node, double bytes) {
  const double stretch = seek_stretch(node);
  const double seek_variance = stretch * stretch * (1.0 / 3 - 64.0 / 225);
  const double turn = 2 * node.rotation;
  Moments moments;
  moments.mean = node.seek + node.rotation + bytes / node.disk;
  moments.square = moments.mean * moments.mean + seek_variance + turn * turn / 12;
  return moments;
}

Result<Performance> saturation(const Tiers& tiers, const Workload& work, const NodeModel& node) {
  if (auto valid = validate(tiers, work, node); !valid) return pass(valid);
  const Stations stations = stations_of(tiers, work, node);
  const auto busiest = std::ranges::max_element(stations.at, {}, &Station::busy);
  Performance performance;
  performance.saturation = 1 / busiest->busy();
  performance.bound_by = static_cast<Resource>(busiest - stations.at.begin());
  return performance;
}

Result<double> response(const Tiers& tiers, const Workload& work, const NodeModel& node,
                        double rate) {
  const auto most = saturation(tiers, work, node);
  if (!most) return std::unexpected(most.error());
  if (!(rate >= 0 && rate < most->saturation)) {
    return fail(Errc::kInvalid, "not below saturation");
  }
  const Stations stations = stations_of(tiers, work, node);
  const Moments disk = disk_moments(node, stations.disk_bytes);
  const double arrivals = rate * stations[Resource::kDisk].visits;
  const double at_disk = arrivals * disk.square / (2 * (1 - arrivals * disk.mean)) + disk.mean;
  double missed = at_disk;
  if (tiers.targets > 0) {
    missed = waited(stations[Resource::kTargetNetwork], rate) +
             waited(stations[Resource::kTargetCache], rate) + (1 - work.target_hits) * at_disk;
  }
  return waited(stations[Resource::kIoNetwork], rate) + waited(stations[Resource::kIoCache], rate) +
         (1 - work.io_hits) * missed;
}

std::vector<Tiers> arrangements(std::uint32_t nodes) {
  std::vector<Tiers> all{{nodes, 0}};
  for (std::uint32_t io_nodes = nodes / 2; io_nodes >= 1; --io_nodes) {
    if (nodes % io_nodes == 0) all.push_back({io_nodes, nodes / io_nodes - 1});
  }
  return all;
}

Result<double> lru_hits(std::span<const Popularity> parts, std::uint32_t cache_blocks) {
  double accesses = 0;
  double blocks = 0;
  for (const Popularity& part : parts) {
    if (!positive(part.blocks) || !chance(part.accesses)) {
      return fail(Errc::kInvalid, "a part without blocks, or of an impossible share");
    }
    accesses += part.accesses;
    blocks += part.blocks;
  }
  if (std::abs(accesses - 1) > 1e-9) return fail(Errc::kInvalid, "shares that are not 1 together");
  if (cache_blocks >= blocks) return 1;
  // held[k]: blocks of part k among the most recently used; one place more with each step.
  std::vector<double> held(parts.size(), 0);
  for (std::uint32_t place = 0; place < cache_blocks; ++place) {
    double all = 0;
    std::vector<double> misses(parts.size());
    for (std::size_t k = 0; k < parts.size(); ++k) {
      misses[k] = parts[k].accesses * std::max(0.0, 1 - held[k] / parts[k].blocks);
      all += misses[k];
    }
    if (all <= 0) break;
    for (std::size_t k = 0; k < parts.size(); ++k) {
      held[k] = std::min(parts[k].blocks, held[k] + misses[k] / all);
    }
  }
  double hits = 0;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    hits += parts[k].accesses * held[k] / parts[k].blocks;
  }
  return std::min(1.0, hits);
}

}  // namespace weft::layout
