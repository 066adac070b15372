// Mover: rebalancing. Objects go from fuller data servers to emptier ones, as all moves do.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "ganesha-fsal/repair/mover.h"
#include "layout/relocation.h"

namespace weft::mds {
namespace {

// A dry run looks at no more objects than can be looked at while somebody waits.
constexpr std::size_t kMostPlanned = 20'000;

// Whether a smaller file has holes is not worth a question to data servers.
constexpr std::uint64_t kLarge = std::uint64_t{64} << 20;

}  // namespace

Mover::Rebalance::Rebalance(const std::vector<Server>& servers, double part)
    : balance(
          [&] {
            std::vector<layout::Candidate> candidates;
            for (const Server& server : servers) candidates.push_back(server.candidate);
            return candidates;
          }(),
          part) {
  state.running = true;
  state.within = part;
  state.spread_before = state.spread = balance.spread();
}

Result<> Mover::begin_rebalance(double within) {
  const auto servers = parts_.servers();
  {
    const MutexLock lock(mutex_);
    if (rebalance_ && rebalance_->state.running) return fail(Errc::kBusy, "a rebalance runs");
    rebalance_.emplace(servers, within);
    spdlog::info("event=rebalance_begun spread={:.3f}", rebalance_->state.spread);
  }
  look_now();
  return {};
}

bool Mover::end_rebalance() {
  const MutexLock lock(mutex_);
  const bool ran = rebalance_ && rebalance_->state.running;
  if (ran) rebalance_->state.running = false;
  return ran;
}

Mover::RebalanceState Mover::rebalance() const {
  const MutexLock lock(mutex_);
  return rebalance_ ? rebalance_->state : RebalanceState{};
}

// Bytes of storage that the stripe's data server has of it, about. Holes are not copied, and take
// none.
std::uint64_t Mover::bytes_at(const InodeAttributes& file, const layout::LayoutMap& map,
                              std::size_t stripe) const {
  const std::uint64_t held =
      map.striping().held_below(static_cast<std::uint32_t>(stripe), file.size);
  if (held < kLarge) return held;
  const auto allocated = parts_.allocated(file.id, map);
  if (!allocated) return held;
  const double part = static_cast<double>(held) / static_cast<double>(file.size);
  return std::min(held, static_cast<std::uint64_t>(static_cast<double>(*allocated) * part));
}

std::optional<Mover::Relief> Mover::relief(const layout::Balance& balance, FileId file,
                                           std::uint32_t from, const Round& round) const {
  const auto map = parts_.names.layout(file);
  if (!map || !*map) return std::nullopt;
  const auto seat = layout::seat_of(**map, from);
  if (!seat) return std::nullopt;
  if (parts_.differs(file) || !may_be_left(**map, from, round)) return std::nullopt;
  const auto move = parts_.names.move_of(file);
  const auto attributes = parts_.names.getattr(file);
  if (!move || *move || !attributes) return std::nullopt;
  const std::uint64_t bytes = bytes_at(*attributes, **map, seat->stripe);
  if (bytes == 0) return std::nullopt;
  auto candidates = round.candidates;
  for (layout::Candidate& candidate : candidates) {
    if (!balance.gains(from, candidate.ds_id, bytes)) {
      candidate.state = layout::ServerState::kDraining;  // keeps its domain, takes nothing
      continue;
    }
    // With what was decided on already, and what others bring there.
    const double free = 1 - balance.part(candidate.ds_id);
    const std::uint64_t coming = round.coming_to(candidate.ds_id);
    candidate.free_bytes =
        std::min(static_cast<std::uint64_t>(free * static_cast<double>(candidate.capacity_bytes)),
                 candidate.free_bytes - std::min(candidate.free_bytes, coming));
  }
  const auto to = layout::choose_successor(
      **map, from, candidates,
      {.reserve_bytes = parts_.limits.reserve_bytes, .wanted_bytes = bytes});
  if (!to) return std::nullopt;
  return Relief{std::move(**map), *to, {.file = attributes->size, .stripe = bytes}};
}

// A page of the fullest one's objects. True: there may be more to begin.
bool Mover::even_out(Round& round) {
  std::optional<Rebalance> now;
  {
    const MutexLock lock(mutex_);
    if (!rebalance_ || !rebalance_->state.running) return false;
    now = rebalance_;
  }
  if (full(round)) return true;
  const auto from = now->balance.giver();
  if (!from) {
    now->state.running = false;
    spdlog::info("event=rebalance_ended moved={} bytes={} spread={:.3f}", now->state.objects,
                 now->state.bytes, now->state.spread);
  } else {
    relieve(*now, *from, round);
  }
  const MutexLock lock(mutex_);
  const bool ended = !rebalance_ || !rebalance_->state.running;
  if (ended) now->state.running = false;
  rebalance_ = std::move(now);
  return rebalance_->state.running;
}

void Mover::relieve(Rebalance& now, std::uint32_t from, Round& round) {
  const auto clock = parts_.clock.now();
  if (now.from != from) {
    now.after.reset();
    now.gave = now.waits = false;
    now.look_at = now.gave_at = clock;
  }
  now.from = from;
  if (clock < now.look_at) return;
  const auto page = parts_.names.objects_of(from, now.after, parts_.limits.page);
  if (!page) {
    now.balance.pass_over(from);
    return;
  }
  bool whole = true;
  std::vector<Chosen> chosen;
  for (const layout::ObjectId& object : *page) {
    const FileId file = object.fileid;
    whole = !full(round) && now.balance.giver() == from;
    if (!whole) break;
    now.after = object;
    if (not_before_.contains(file)) now.waits = true;
    if (not_before_.contains(file) || moves_.contains(file)) continue;
    if (!chosen.empty() && chosen.back().file == file) continue;
    auto relief = this->relief(now.balance, file, from, round);
    if (!relief || full(round, relief->to)) continue;
    now.balance.move(from, relief->to, relief->size.stripe);
    round.add(relief->to, relief->size);
    chosen.push_back({file, std::move(relief->map), relief->to, relief->size});
  }
  std::size_t given = chosen.size();
  now.state.objects += given;
  for (const Chosen& one : chosen) now.state.bytes += one.size.stripe;
  for (const Chosen& one : begin_all(std::move(chosen), from, round)) {
    now.balance.move(one.to, from, one.size.stripe);
    --now.state.objects;
    now.state.bytes -= one.size.stripe;
    if (one.begun) continue;  // it begins as any file the next time
    --given;
    now.waits = true;
  }
  now.gave = now.gave || given > 0;
  now.state.spread = now.balance.spread();
  if (!whole) return;
  if (page->size() == parts_.limits.page) return;
  // All were looked at. If none could go, none can; but for those that are not done with a move,
  // and those that are used just now, which are waited for.
  if (now.gave) now.gave_at = clock;
  const bool waits = now.waits && clock - now.gave_at < parts_.limits.patience;
  if (!now.gave && moves_.empty() && !waits) now.balance.pass_over(from);
  if (!now.gave && waits) now.look_at = clock + parts_.limits.look_every;
  now.after.reset();
  now.gave = now.waits = false;
}

Result<Mover::Plan> Mover::plan(double within) const {
  const Round round(parts_.servers());
  layout::Balance balance(round.candidates, within);
  Plan plan{.spread_before = balance.spread()};
  std::size_t seen = 0;
  std::set<FileId> planned;
  while (const auto from = balance.giver()) {
    std::optional<layout::ObjectId> after;
    bool gave = false;
    while (seen < kMostPlanned && balance.giver() == from) {
      auto page = parts_.names.objects_of(*from, after, parts_.limits.page);
      if (!page) return pass(page);
      if (page->empty()) break;
      after = page->back();
      seen += page->size();
      for (const layout::ObjectId& object : *page) {
        if (planned.contains(object.fileid) || balance.giver() != from) continue;
        const auto relief = this->relief(balance, object.fileid, *from, round);
        if (!relief) continue;
        gave = true;
        planned.insert(object.fileid);
        balance.move(*from, relief->to, relief->size.stripe);
        PlannedMoves& moves = plan.moves[{*from, relief->to}];
        ++moves.objects;
        moves.bytes += relief->size.stripe;
      }
    }
    plan.whole = seen < kMostPlanned;
    if (!plan.whole) break;
    if (!gave) balance.pass_over(*from);
  }
  plan.spread_after = balance.spread();
  return plan;
}

}  // namespace weft::mds
