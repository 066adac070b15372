// How many requests a second a parallel file system carries, and how long they take: the queueing
// model of iPVFS.
//
// N storage nodes, in one tier (every node an I/O server with a disk) or in two: I/O nodes, each
// with its own targets that hold the data. A request of L bytes is striped in units of B:
//
//   I/O nodes visited   P_i = min(ceil(L / B) / N_io, 1), each for L_i = L / (P_i N_io) bytes
//   targets of each     P_ij = min(ceil(L_i / B) / N_t, 1), each for L_ij = L_i / (P_ij N_t)
//
// (The paper prints |L / B| and counts bytes as if every node were visited; this is our reading.)
// The I/O nodes' caches hit with chance h_io, the targets' with h_t. Networks and caches are M/M/1
// queues, disks M/G/1, arrivals Poisson, load balanced. The greatest rate is that at which the
// busiest resource is busy all the time.
//
// Writes go through to the disk. With k copies in one tier every write is done k times; in two
// tiers the targets of an I/O node keep rotated parity (two are a mirror; one keeps no redundancy):
// a whole stripe costs N_t / (N_t - 1), less than that four operations for one from three targets
// on.
//
// Use it for what saturates first and at what rate. The response time is a mean without the maximum
// over parallel parts: striped requests take longer than it says.
//
// Threading: plain values and pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "rpc/base/error.h"

namespace weft::layout {

// Speeds are bytes a second, times seconds.
struct NodeModel {
  double network = 75.0 * (1 << 20);
  double cache = 500.0 * (1 << 20);
  double disk = 51.0 * (1 << 20);
  double seek = 0.0038;     // mean; at least kLeastSeek
  double rotation = 0.002;  // mean: half a turn

  // All of it so many times slower.
  [[nodiscard]] NodeModel slower(double times) const {
    return {network / times, cache / times, disk / times, seek * times, rotation * times};
  }
};
// Those that serve clients, and those behind them. Requests are striped evenly over the nodes of a
// tier, so where these differ it is as fast as its slowest.
struct NodeModels {
  NodeModel io;
  NodeModel target;  // unused in one tier

  NodeModels() = default;
  NodeModels(const NodeModel& all) : io(all), target(all) {}  // NOLINT(*-explicit-*)
  NodeModels(const NodeModel& io_nodes, const NodeModel& targets) : io(io_nodes), target(targets) {}
};
constexpr double kLeastSeek = 0.0005;  // to the next cylinder; beyond it a root of the distance

struct Workload {
  double request = 65536;    // L, bytes
  double unit = 65536;       // B, bytes
  double io_hits = 0;        // h_io
  double target_hits = 0;    // h_t, of what missed at the I/O nodes; unused in one tier
  double writes = 0;         // the part of requests that write
  std::uint32_t copies = 1;  // of writes in one tier
};

struct Tiers {
  std::uint32_t io_nodes = 1;
  std::uint32_t targets = 0;  // of each I/O node; 0: one tier

  [[nodiscard]] std::uint32_t nodes() const { return io_nodes * (1 + targets); }
  friend bool operator==(const Tiers&, const Tiers&) = default;
};

enum class Resource : std::uint8_t { kIoNetwork, kIoCache, kTargetNetwork, kTargetCache, kDisk };
[[nodiscard]] std::string_view to_string(Resource resource);

struct Performance {
  double saturation = 0;                // requests a second
  Resource bound_by = Resource::kDisk;  // what is busy all the time then
};

// kInvalid for what makes no model: sizes, speeds, times that are not positive, chances outside 0
// to 1, no I/O node.
[[nodiscard]] Result<Performance> saturation(const Tiers& tiers, const Workload& work,
                                             const NodeModels& nodes);

// The mean time a read takes, in seconds, with `rate` requests a second. kInvalid at saturation and
// beyond.
[[nodiscard]] Result<double> response(const Tiers& tiers, const Workload& work,
                                      const NodeModels& nodes, double rate);

// One tier first, then every two-tier arrangement of exactly `nodes` nodes, more I/O nodes first.
[[nodiscard]] std::vector<Tiers> arrangements(std::uint32_t nodes);

// A disk's time for one operation: mean and mean square.
struct Moments {
  double mean = 0;
  double square = 0;
};
// How the arm's time grows with its way: not at all, with its root, in proportion.
enum class SeekCurve : std::uint8_t { kConstant, kRoot, kLinear };
[[nodiscard]] Moments disk_moments(const NodeModel& node, double bytes,
                                   SeekCurve curve = SeekCurve::kRoot);
// The arm's time to a place so far away, as a part of the disk: 0 to 1. Its mean over places drawn
// evenly is node.seek.
[[nodiscard]] double seek_time(const NodeModel& node, double distance);

// A part of a file's blocks and of the accesses, which fall on it evenly.
struct Popularity {
  double accesses = 1;  // the parts of all sum up to 1
  double blocks = 1;
};

// How often an LRU cache of `cache_blocks` hits: the approximation of Dan and Towsley. kInvalid for
// no parts, parts without blocks, or accesses that do not sum up to 1.
[[nodiscard]] Result<double> lru_hits(std::span<const Popularity> parts,
                                      std::uint32_t cache_blocks);

// How often an LRU cache of `below_blocks` hits that is asked for what missed in one of
// `cache_blocks`. What it keeps is mostly what the first one has, too, so it needs to be the larger
// one to be of use (Che's approximation: a block stays for a fixed time after it was asked for,
// which is such that the cache is full). kInvalid as above.
[[nodiscard]] Result<double> lru_hits_below(std::span<const Popularity> parts,
                                            std::uint32_t cache_blocks, std::uint32_t below_blocks);

}  // namespace weft::layout
