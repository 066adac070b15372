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

bool possible(const NodeModel& node) {
  return positive(node.network) && positive(node.cache) && positive(node.disk) &&
         std::isfinite(node.seek) && node.seek >= 0 && std::isfinite(node.rotation) &&
         node.rotation >= 0;
}

Result<> validate(const Tiers& tiers, const Workload& work, const NodeModels& nodes) {
  if (tiers.io_nodes == 0) return fail(Errc::kInvalid, "no I/O node");
  if (!positive(work.request) || !positive(work.unit)) {
    return fail(Errc::kInvalid, "request and stripe unit are to be positive");
  }
  if (!chance(work.io_hits) || !chance(work.target_hits) || !chance(work.writes)) {
    return fail(Errc::kInvalid, "hit rates and the part of writes are 0 to 1");
  }
  if (work.copies == 0) return fail(Errc::kInvalid, "no copy");
  if (!possible(nodes.io) || !possible(nodes.target)) {
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

Stations stations_of(const Tiers& tiers, const Workload& work, const NodeModels& nodes) {
  Stations stations;
  const double reads = 1 - work.writes;
  const double part = visited(work.request, work.unit, tiers.io_nodes);
  const double bytes = work.request / (part * tiers.io_nodes);
  const bool flat = tiers.targets == 0;
  const double done = flat ? reads + work.writes * work.copies : 1;
  stations[Resource::kIoNetwork] = {bytes / nodes.io.network, part * done};
  stations[Resource::kIoCache] = {bytes / nodes.io.cache, part * done};
  const double misses = reads * (1 - work.io_hits);
  if (flat) {
    stations.disk_bytes = bytes;
    stations[Resource::kDisk] = {disk_moments(nodes.io, bytes).mean,
                                 part * (misses + work.writes * work.copies)};
    return stations;
  }
  const double target_part = visited(bytes, work.unit, tiers.targets);
  const double target_bytes = bytes / (target_part * tiers.targets);
  const double writes = work.writes * parity_cost(tiers, bytes, work.unit);
  const double visits = part * target_part;
  stations.disk_bytes = target_bytes;
  stations[Resource::kTargetNetwork] = {target_bytes / nodes.target.network,
                                        visits * (misses + writes)};
  stations[Resource::kTargetCache] = {target_bytes / nodes.target.cache,
                                      visits * (misses + writes)};
  stations[Resource::kDisk] = {disk_moments(nodes.target, target_bytes).mean,
                               visits * (misses * (1 - work.target_hits) + writes)};
  return stations;
}

// The arm's way is a root of the distance between two places drawn evenly from [0, 1]:
// E[sqrt x] = 8/15 and E[x] = 1/3 of such distances.
double least_seek(const NodeModel& node) { return std::min(kLeastSeek, node.seek); }
double seek_stretch(const NodeModel& node) { return (node.seek - least_seek(node)) / (8.0 / 15); }

// Of all parts. kInvalid for what no cache can be asked for.
Result<double> blocks_of(std::span<const Popularity> parts) {
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
  return blocks;
}

// How long a cache that becomes full keeps a block after it was last asked for, in accesses.
double kept_for(std::span<const Popularity> parts, double cache_blocks) {
  const auto held = [&](double time) {
    double sum = 0;
    for (const Popularity& part : parts) {
      sum += part.blocks * -std::expm1(-part.accesses / part.blocks * time);
    }
    return sum;
  };
  double most = cache_blocks;
  while (held(most) < cache_blocks && most < 1e18) most *= 2;
  double least = 0;
  for (int i = 0; i < 200; ++i) {
    const double middle = (least + most) / 2;
    (held(middle) < cache_blocks ? least : most) = middle;
  }
  return most;
}

// The misses of one block at a cache that keeps it for `kept` after each access. They are a renewal
// process: at() is the chance that the next one is later than now after the last, and step() goes
// on by a part of `kept`, 1/kSteps. For the first `kept` there is none; from then on
//   at(t) = e^-rt + integral over x from 0 to kept of r e^-rx at(t - x),
// since an access within `kept` begins the time anew.
class NextMiss {
 public:
  static constexpr int kSteps = 500;  // of `kept`; the result is good to three digits
  NextMiss(double rate, double kept)
      : rate_(rate),
        kept_(kept),
        step_(kept / kSteps),
        past_(kSteps + 1, 1.0),
        again_(-std::expm1(-rate * kept)) {}

  [[nodiscard]] double at() const { return past_[now_]; }
  [[nodiscard]] double step_size() const { return step_; }
  // How often a block misses of which accesses come at `rate`.
  [[nodiscard]] double misses() const { return rate_ * std::exp(-rate_ * kept_); }
  void step() {
    ++steps_;
    const std::size_t next = (now_ + 1) % past_.size();
    if (steps_ <= kSteps) {
      past_[next] = 1;
      now_ = next;
      return;
    }
    const double fades = std::exp(-rate_ * step_);
    const double oldest = (past_[next] + past_[(next + 1) % past_.size()]) / 2;
    again_ = fades * again_ - std::exp(-rate_ * kept_) * (1 - fades) * oldest;
    const double part = (1 - fades) / 2;
    const double alone = std::exp(-rate_ * step_ * static_cast<double>(steps_));
    const double value = (alone + again_ + part * past_[now_]) / (1 - part);
    again_ += part * (past_[now_] + value);
    past_[next] = value;
    now_ = next;
  }

 private:
  double rate_;
  double kept_;
  double step_;
  std::vector<double> past_;  // of the last `kept`, a ring
  double again_;              // the integral
  std::size_t now_ = 0;
  int steps_ = 0;
};

// How often a cache hits that is asked for the misses. later[k]: the chance that a block of part k
// misses again only when the cache keeps it no more.
double hits_of_misses(std::span<const Popularity> parts, std::span<const NextMiss> next,
                      std::span<const double> later) {
  double hits = 0;
  double misses = 0;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    const double part = parts[k].blocks * next[k].misses();
    misses += part;
    hits += part * (1 - later[k]);
  }
  return misses > 0 ? std::clamp(hits / misses, 0.0, 1.0) : 0;
}

constexpr int kFar = 100;  // times `kept`: misses that are further apart come at random

// The second cache holds what missed within a time, which is as long as it takes to fill it: step
// by step. What the first one keeps for good does not miss, and then the second may never be full.
double hits_below(std::span<const Popularity> parts, std::vector<NextMiss> next, double blocks) {
  std::vector<double> later(parts.size(), 1);
  double held = 0;
  for (int step = 0; held < blocks && step < kFar * NextMiss::kSteps; ++step) {
    for (std::size_t k = 0; k < parts.size(); ++k) {
      next[k].step();
      held +=
          parts[k].blocks * next[k].misses() * next[k].step_size() * (later[k] + next[k].at()) / 2;
      later[k] = next[k].at();
    }
  }
  return hits_of_misses(parts, next, later);
}

// The same where that is more than kFar times `kept`, so that steps would be many.
double hits_far_below(std::span<const Popularity> parts, std::span<const NextMiss> next,
                      double kept, double blocks) {
  std::vector<double> later(parts.size());
  const auto held = [&](double time) {
    double sum = 0;
    for (std::size_t k = 0; k < parts.size(); ++k) {
      if (next[k].misses() == 0) continue;
      const double more = 1 / next[k].misses() - kept;  // mean, beyond the first `kept`
      later[k] = std::exp(-(time - kept) / more);
      sum += parts[k].blocks * next[k].misses() * (kept + more * (1 - later[k]));
    }
    return sum;
  };
  double most = 2 * kept;
  while (held(most) < blocks && most < 1e18) most *= 2;
  double least = kept;
  for (int i = 0; i < 200; ++i) {
    const double middle = (least + most) / 2;
    (held(middle) < blocks ? least : most) = middle;
  }
  return hits_of_misses(parts, next, later);
}

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

Moments disk_moments(const NodeModel& node, double bytes, SeekCurve curve) {
  double seek_variance = 0;
  if (curve == SeekCurve::kRoot) {
    const double stretch = seek_stretch(node);
    seek_variance = stretch * stretch * (1.0 / 3 - 64.0 / 225);
  } else if (curve == SeekCurve::kLinear) {
    const double stretch = (node.seek - least_seek(node)) * 3;
    seek_variance = stretch * stretch / 18;
  }
  const double turn = 2 * node.rotation;
  Moments moments;
  moments.mean = node.seek + node.rotation + bytes / node.disk;
  moments.square = moments.mean * moments.mean + seek_variance + turn * turn / 12;
  return moments;
}

Result<Performance> saturation(const Tiers& tiers, const Workload& work, const NodeModels& nodes) {
  if (auto valid = validate(tiers, work, nodes); !valid) return pass(valid);
  const Stations stations = stations_of(tiers, work, nodes);
  const auto busiest = std::ranges::max_element(stations.at, {}, &Station::busy);
  Performance performance;
  performance.saturation = 1 / busiest->busy();
  performance.bound_by = static_cast<Resource>(busiest - stations.at.begin());
  return performance;
}

Result<double> response(const Tiers& tiers, const Workload& work, const NodeModels& nodes,
                        double rate) {
  const auto most = saturation(tiers, work, nodes);
  if (!most) return std::unexpected(most.error());
  if (!(rate >= 0 && rate < most->saturation)) {
    return fail(Errc::kInvalid, "not below saturation");
  }
  const Stations stations = stations_of(tiers, work, nodes);
  const Moments disk =
      disk_moments(tiers.targets == 0 ? nodes.io : nodes.target, stations.disk_bytes);
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
  const auto blocks = blocks_of(parts);
  if (!blocks) return blocks;
  if (cache_blocks >= *blocks) return 1;
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

Result<double> lru_hits_below(std::span<const Popularity> parts, std::uint32_t cache_blocks,
                              std::uint32_t below_blocks) {
  if (cache_blocks == 0) return lru_hits(parts, below_blocks);
  const auto blocks = blocks_of(parts);
  if (!blocks) return blocks;
  if (cache_blocks >= *blocks) return 0;  // nobody asks
  if (below_blocks >= *blocks) return 1;
  const double kept = kept_for(parts, cache_blocks);
  std::vector<NextMiss> next;
  for (const Popularity& part : parts) next.emplace_back(part.accesses / part.blocks, kept);
  if (kept_for(parts, below_blocks) > kFar * kept) {
    return hits_far_below(parts, next, kept, below_blocks);
  }
  return hits_below(parts, std::move(next), below_blocks);
}

}  // namespace weft::layout
