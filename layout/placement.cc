#include "layout/placement.h"

#include <algorithm>

namespace weft::layout {
namespace {

// A server that is overdue gets no new files: it may be about to be down.
struct Fit {
  std::vector<std::uint32_t> ids;  // in order of id
  bool any_up = false;
};

Fit fit_servers(std::span<const Candidate> candidates, const PlacementPolicy& policy) {
  Fit fit;
  for (const Candidate& candidate : candidates) {
    if (candidate.state != ServerState::kUp) continue;
    fit.any_up = true;
    if (candidate.free_bytes >= policy.reserve_bytes) fit.ids.push_back(candidate.ds_id);
  }
  std::ranges::sort(fit.ids);
  return fit;
}

}  // namespace

std::string_view to_string(ServerState state) {
  switch (state) {
    case ServerState::kUp: return "up";
    case ServerState::kSuspect: return "suspect";
    case ServerState::kDown: return "down";
    case ServerState::kDraining: return "draining";
  }
  return "unknown";
}

Result<PlacementChoice> RoundRobin::choose(std::span<const Candidate> candidates,
                                           const PlacementPolicy& policy) {
  if (policy.copies != 1) return fail(Errc::kInvalid, "round robin makes one copy");
  const Fit fit = fit_servers(candidates, policy);
  if (!fit.any_up) return fail(Errc::kLayoutTryLater, "no data server is up");
  if (fit.ids.empty()) return fail(Errc::kNoSpace, "every data server is full");

  const std::size_t wanted = policy.stripe_count == 0 ? fit.ids.size() : policy.stripe_count;
  const std::size_t width = std::min({wanted, fit.ids.size(), kMaxLayoutServers});
  const std::uint64_t turn = turn_.fetch_add(1, std::memory_order_relaxed);
  const std::size_t start = turn % fit.ids.size();

  Copy copy;
  if (width == fit.ids.size()) {
    copy.ds_ids = fit.ids;
    copy.first_index = static_cast<std::uint32_t>(start);
  } else {
    for (std::size_t i = 0; i < width; ++i) {
      copy.ds_ids.push_back(fit.ids[(start + i) % fit.ids.size()]);
    }
  }
  PlacementChoice choice;
  choice.map.type = policy.type;
  choice.map.stripe_unit = policy.stripe_unit;
  choice.map.copies.push_back(std::move(copy));
  if (auto valid = validate(choice.map); !valid) return pass(valid);
  choice.reason = "round-robin turn=" + std::to_string(turn) +
                  " fit=" + std::to_string(fit.ids.size()) + " of " +
                  std::to_string(candidates.size());
  return choice;
}

}  // namespace weft::layout
