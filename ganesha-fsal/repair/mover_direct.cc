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
         one.bytes <= parts_.limits.direct_bytes && is_current(one.map, from) &&
         !not_directly_.contains(one.file);
}

// Takes those from `chosen` that are moved now, whether that succeeds or not.
void Mover::move_directly(std::vector<Chosen>& chosen, std::uint32_t from, Round& round) {
  std::vector<Chosen> others;
  std::vector<Chosen> batch;
  for (Chosen& one : chosen) {
    auto held = may_go_directly(one, from, round) ? parts_.hold_unused(one.file, one.map)
                                                  : fail(Errc::kBusy, "it is used");
    if (!held) {
      others.push_back(std::move(one));
      continue;
    }
    one.held = std::move(*held);
    batch.push_back(std::move(one));
    if (batch.size() < parts_.limits.direct) continue;
    move_batch(std::exchange(batch, {}), from, round);
  }
  if (!batch.empty()) move_batch(std::move(batch), from, round);
  chosen = std::move(others);
}

void Mover::move_batch(std::vector<Chosen> batch, std::uint32_t from, Round& round) {
  for (const Chosen& one : batch) round.take_off(one.to, one.bytes);
  keep_if(batch, from, parts_.names.begin_direct(direct_moves(batch, from)));
  std::vector<Result<>> copied(batch.size());
  in_parallel(batch.size(), parts_.limits.threads, [&](std::size_t i) {
    const Chosen& one = batch[i];
    copied[i] = is_stopping() ? fail(Errc::kClosed, "shutting down")
                              : parts_.copy(one.file, one.map, from, one.to);
  });
  keep_if(batch, from, std::move(copied));
  keep_if(batch, from, parts_.names.finish_direct(direct_moves(batch, from)));
  for (const Chosen& one : batch) {
    look_at(one.file);
    count(from, one.bytes);
    moved_directly_ = true;
  }
}

std::vector<DirectMove> Mover::direct_moves(const std::vector<Chosen>& batch, std::uint32_t from) {
  std::vector<DirectMove> moves;
  for (const Chosen& one : batch) {
    moves.push_back({one.file, from, one.to, one.map.object_epoch});
  }
  return moves;
}

// The others are moved as any file, when it is their turn again. Of those that have begun the move
// is one that left: what the newcomer has got is removed, as it is after a crash.
void Mover::keep_if(std::vector<Chosen>& batch, std::uint32_t from,
                    const Result<std::vector<Result<>>>& outcomes) {
  std::vector<Chosen> kept;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const Result<> outcome =
        outcomes ? (*outcomes)[i] : Result<>(std::unexpected(outcomes.error()));
    if (outcome) {
      kept.push_back(std::move(batch[i]));
      continue;
    }
    look_at(batch[i].file);
    not_directly_.insert(batch[i].file);
    rest(batch[i].file);
    spdlog::debug("event=not_moved_directly file={:x} from={} to={} error=\"{}\"", batch[i].file,
                  from, batch[i].to, outcome.error().describe());
  }
  batch = std::move(kept);
}

}  // namespace weft::mds
