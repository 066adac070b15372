// Mover: moves of small files that nobody uses, many at once.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "ganesha-fsal/cluster/in_parallel.h"
#include "ganesha-fsal/repair/mend_parts.h"
#include "ganesha-fsal/repair/mover.h"
#include "layout/relocation.h"

namespace weft::mds {

// The data server that is left has the bytes and is there, so that its object need not be kept.
bool Mover::may_go_directly(const Chosen& one, std::uint32_t from, const Round& round) const {
  const Server* const source = round.find(from);
  return source != nullptr && source->reach == Reach::kHere &&
         one.size.file <= parts_.limits.direct_bytes && is_current(one.map, from) &&
         !not_directly_.contains(one.file);
}

std::vector<Mover::Chosen> Mover::move_directly(std::vector<Chosen>& chosen, std::uint32_t from,
                                                Round& round) {
  const auto large = std::ranges::partition(
      chosen, [&](const Chosen& one) { return may_go_directly(one, from, round); });
  const std::span<Chosen> small(chosen.begin(), large.begin());
  const std::size_t most = parts_.limits.direct;
  in_parallel((small.size() + most - 1) / most,
              std::min<std::size_t>(parts_.limits.batches, parts_.limits.threads),
              [&](std::size_t i) {
                const auto rest = small.subspan(i * most);
                move_batch(rest.first(std::min(most, rest.size())), from);
              });
  std::vector<Chosen> failed;
  for (Chosen& one : small) {
    if (one.directly && !*one.directly) continue;
    round.take_off(one.to, one.size);
    look_at(one.file);
    if (one.directly) {
      count(from, one.size.file);
      moved_directly_ = true;
      continue;
    }
    // As any file, when it is its turn again.
    not_directly_.insert(one.file);
    rest(one.file);
    spdlog::debug("event=not_moved_directly file={:x} from={} to={} error=\"{}\"", one.file, from,
                  one.to, one.directly.error().describe());
    failed.push_back(one);
  }
  std::erase_if(chosen, [](const Chosen& one) { return !one.directly || *one.directly; });
  return failed;
}

std::vector<DirectMove> Mover::direct_moves(const std::vector<Chosen*>& going, std::uint32_t from) {
  std::vector<DirectMove> moves;
  for (const Chosen* const one : going) {
    moves.push_back({one->file, from, one->to, one->map.object_epoch});
  }
  return moves;
}

// Of those that have begun the move is one that left: what the newcomer has got is removed, as it
// is after a crash.
void Mover::keep_if(std::vector<Chosen*>& going, const Result<std::vector<Result<>>>& outcomes) {
  std::vector<Chosen*> kept;
  for (std::size_t i = 0; i < going.size(); ++i) {
    const Result<> outcome =
        outcomes ? (*outcomes)[i] : Result<>(std::unexpected(outcomes.error()));
    if (outcome) {
      kept.push_back(going[i]);
      continue;
    }
    going[i]->directly = std::unexpected(outcome.error());
    going[i]->held.reset();
  }
  going = std::move(kept);
}

void Mover::move_batch(std::span<Chosen> batch, std::uint32_t from) const {
  std::vector<Chosen*> going;
  for (Chosen& one : batch) {
    auto held = is_stopping() ? fail(Errc::kClosed, "shutting down")
                              : parts_.hold_unused(one.file, one.map);
    if (!held) continue;
    one.held = std::move(*held);
    going.push_back(&one);
  }
  if (going.empty()) return;
  keep_if(going, parts_.names.begin_direct(direct_moves(going, from)));
  std::vector<Result<>> copied(going.size());
  in_parallel(going.size(), parts_.limits.threads, [&](std::size_t i) {
    const Chosen& one = *going[i];
    copied[i] = is_stopping() ? fail(Errc::kClosed, "shutting down")
                              : parts_.copy(one.file, one.map, from, one.to);
  });
  keep_if(going, std::move(copied));
  keep_if(going, parts_.names.finish_direct(direct_moves(going, from)));
  for (Chosen* const one : going) {
    one->directly = true;
    one->held.reset();
  }
}

}  // namespace weft::mds
