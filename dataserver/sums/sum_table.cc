#include "dataserver/sums/sum_table.h"

#include <algorithm>

#include "rpc/base/assert.h"

namespace weft::ds {

namespace {

// The sums of a region stay as many as they were.
std::size_t memory_of(const SumTable::Region& region) {
  return SumTable::kRegionBytes + region.sums.size() * sizeof(std::uint64_t);
}

}  // namespace

void SumTable::take_turn(const Object& object, std::move_only_function<void(Turn)> then) {
  {
    const MutexLock lock(mutex_);
    State& state = objects_[object];
    if (state.turn) {
      state.waiting.push_back({IoRing::current(), std::move(then)});
      return;
    }
    state.turn = true;
  }
  then(Turn(*this, object));
}

// What call() awaits is made anew by each, so this is short.
Task<SumTable::Turn> SumTable::turn(Object object) {
  co_return co_await call<Turn>([&](auto then) { take_turn(object, std::move(then)); });
}

void SumTable::end_turn(const Object& object) {
  Waiter next;
  {
    const MutexLock lock(mutex_);
    const auto found = objects_.find(object);
    WEFT_ASSERT(found != objects_.end() && found->second.turn);
    State& state = found->second;
    if (state.waiting.empty()) {
      state.turn = false;
      return drop_if_empty(found);
    }
    next = std::move(state.waiting.front());
    state.waiting.pop_front();
  }
  next.ring->post([turn = Turn(*this, object), then = std::move(next.then)]() mutable {
    then(std::move(turn));
  });
}

void SumTable::drop_if_empty(States::iterator at) {
  const State& state = at->second;
  if (!state.turn && state.regions.empty() && state.waiting.empty()) objects_.erase(at);
}

const SumTable::Region* SumTable::find(const Object& object, std::uint64_t index) const {
  const auto state = objects_.find(object);
  if (state == objects_.end()) return nullptr;
  const auto region = state->second.regions.find(index);
  return region == state->second.regions.end() ? nullptr : &region->second;
}

SumTable::Region* SumTable::find(const Object& object, std::uint64_t index) {
  const auto state = objects_.find(object);
  if (state == objects_.end()) return nullptr;
  const auto region = state->second.regions.find(index);
  return region == state->second.regions.end() ? nullptr : &region->second;
}

// --- Writes --------------------------------------------------------------------------------------

bool SumTable::begin_at_once(const Object& object, const Blocks& blocks, std::uint64_t now) {
  const MutexLock lock(mutex_);
  const auto found = objects_.find(object);
  if (found == objects_.end() || found->second.turn) return false;
  for (std::uint64_t at = blocks.first / kSumRegionBlocks;
       at <= (blocks.end - 1) / kSumRegionBlocks; ++at) {
    const Region* region = find(object, at);
    if (region == nullptr || !region->cleared) return false;
  }
  const auto to_check = [&](std::uint64_t block) WEFT_REQUIRES(mutex_) {
    const Region* region = find(object, block / kSumRegionBlocks);
    const std::uint64_t in = block % kSumRegionBlocks;
    return !region->touched[in] && region->sum_at(in) != kUnknownSum;
  };
  if (blocks.part_of_first && to_check(blocks.first)) return false;
  if (blocks.part_of_last && to_check(blocks.end - 1)) return false;
  mark(object, blocks, now);
  return true;
}

std::vector<std::uint64_t> SumTable::missing(const Object& object, const Blocks& blocks) const {
  std::vector<std::uint64_t> indices;
  const MutexLock lock(mutex_);
  for (std::uint64_t at = blocks.first / kSumRegionBlocks;
       at <= (blocks.end - 1) / kSumRegionBlocks; ++at) {
    const Region* region = find(object, at);
    if (region == nullptr || !region->cleared) indices.push_back(at);
  }
  return indices;
}

void SumTable::mark(const Object& object, const Blocks& blocks, std::uint64_t now) {
  for (std::uint64_t at = blocks.first; at < blocks.end;) {
    Region* region = find(object, at / kSumRegionBlocks);
    WEFT_ASSERT(region != nullptr && region->cleared);
    const std::uint64_t end = std::min(blocks.end, (region->index + 1) * kSumRegionBlocks);
    for (; at < end; ++at) region->touched.set(at % kSumRegionBlocks);
    ++region->writing;
    region->changes = ++changes_;
    region->changed_at = now;
  }
}

void SumTable::begin(const Object& object, const Blocks& blocks, std::uint64_t now) {
  const MutexLock lock(mutex_);
  mark(object, blocks, now);
}

void SumTable::end_write(const Object& object, const Blocks& blocks, std::uint64_t now) {
  const MutexLock lock(mutex_);
  for (std::uint64_t at = blocks.first / kSumRegionBlocks;
       at <= (blocks.end - 1) / kSumRegionBlocks; ++at) {
    Region* region = find(object, at);
    WEFT_ASSERT(region != nullptr && region->writing > 0);
    --region->writing;
    region->changes = ++changes_;
    region->changed_at = now;
  }
}

// --- Regions -------------------------------------------------------------------------------------

void SumTable::add(const Object& object, Region region) {
  const MutexLock lock(mutex_);
  const std::uint64_t index = region.index;
  region.changes = ++changes_;
  memory_ += memory_of(region);
  const bool added = objects_[object].regions.emplace(index, std::move(region)).second;
  WEFT_ASSERT(added);
}

void SumTable::set_cleared(const Object& object, std::uint64_t index) {
  const MutexLock lock(mutex_);
  find(object, index)->cleared = true;
}

bool SumTable::has(const Object& object, std::uint64_t index) const {
  const MutexLock lock(mutex_);
  return find(object, index) != nullptr;
}

bool SumTable::is_cleared(const Object& object, std::uint64_t index) const {
  const MutexLock lock(mutex_);
  const Region* region = find(object, index);
  return region != nullptr && region->cleared;
}

void SumTable::forget(const Object& object, std::uint64_t first, std::uint64_t end) {
  const MutexLock lock(mutex_);
  const auto state = objects_.find(object);
  if (state == objects_.end()) return;
  for (auto& [index, region] : state->second.regions) {
    const std::uint64_t base = index * kSumRegionBlocks;
    if (base >= end || base + kSumRegionBlocks <= first) continue;
    const std::uint64_t from = first > base ? first - base : 0;
    const std::uint64_t to = std::min<std::uint64_t>(region.sums.size(), end - base);
    for (std::uint64_t at = from; at < to; ++at) region.sums[at] = kUnknownSum;
    region.changes = ++changes_;
  }
}

void SumTable::erase(const Object& object, std::uint64_t index) {
  const MutexLock lock(mutex_);
  erase_region(object, index);
}

void SumTable::erase_region(const Object& object, std::uint64_t index) {
  const auto state = objects_.find(object);
  if (state == objects_.end()) return;
  const auto region = state->second.regions.find(index);
  if (region == state->second.regions.end()) return;
  memory_ -= memory_of(region->second);
  state->second.regions.erase(region);
  drop_if_empty(state);
}

std::optional<std::uint64_t> SumTable::sum_of(const Object& object, std::uint64_t block) const {
  const MutexLock lock(mutex_);
  const Region* region = find(object, block / kSumRegionBlocks);
  if (region == nullptr) return std::nullopt;
  const std::uint64_t in = block % kSumRegionBlocks;
  return region->touched[in] ? kUnknownSum : region->sum_at(in);
}

bool SumTable::fill(const Object& object, std::uint64_t first,
                    std::span<std::uint64_t> sums) const {
  const MutexLock lock(mutex_);
  bool all = true;
  for (std::size_t at = 0; at < sums.size();) {
    const std::uint64_t index = (first + at) / kSumRegionBlocks;
    const std::size_t end = std::min<std::size_t>(
        sums.size(), static_cast<std::size_t>((index + 1) * kSumRegionBlocks - first));
    const Region* region = find(object, index);
    all = all && region != nullptr;
    if (region == nullptr) at = end;
    for (; at < end; ++at) {
      const std::uint64_t in = (first + at) % kSumRegionBlocks;
      sums[at] = region->touched[in] ? kUnknownSum : region->sum_at(in);
    }
  }
  return all;
}

void SumTable::adopt(const Object& object, std::uint64_t first, std::uint64_t end,
                     std::uint64_t now) {
  const MutexLock lock(mutex_);
  for (std::uint64_t block = first; block < end; ++block) {
    Region* region = find(object, block / kSumRegionBlocks);
    const std::uint64_t in = block % kSumRegionBlocks;
    if (region == nullptr || region->touched[in] || region->sum_at(in) != kUnknownSum) continue;
    region->touched.set(in);
    region->changes = ++changes_;
    region->changed_at = now;
  }
}

// --- Sealing -------------------------------------------------------------------------------------

template <class Pick>
std::vector<SumTable::Place> SumTable::oldest(std::size_t most, Pick pick) const {
  struct Found {
    std::uint64_t at;
    Place place;
  };
  std::vector<Found> found;
  for (const auto& [object, state] : objects_) {
    for (const auto& [index, region] : state.regions) {
      if (region.writing > 0 || !pick(object, state, region)) continue;
      found.push_back({region.changed_at, {object, index}});
    }
  }
  const std::size_t count = std::min(most, found.size());
  std::ranges::partial_sort(found, found.begin() + static_cast<std::ptrdiff_t>(count), {},
                            &Found::at);
  std::vector<Place> places;
  for (const Found& one : std::span(found).first(count)) places.push_back(one.place);
  return places;
}

std::vector<SumTable::Place> SumTable::due(std::uint64_t before, std::size_t most) const {
  const MutexLock lock(mutex_);
  return oldest(most, [&](const Object&, const State& state, const Region& region) {
    return !state.turn && region.changed_at < before;
  });
}

std::optional<SumTable::Due> SumTable::look_at(const Place& place) const {
  const MutexLock lock(mutex_);
  const Region* region = find(place.object, place.index);
  if (region == nullptr || region->writing > 0 || objects_.at(place.object).turn) {
    return std::nullopt;
  }
  return Due{.object = place.object,
             .index = place.index,
             .changes = region->changes,
             .sums = region->sums,
             .touched = region->touched};
}

bool SumTable::unchanged(const Due& due) const {
  const MutexLock lock(mutex_);
  const Region* region = find(due.object, due.index);
  return region != nullptr && region->writing == 0 && region->changes == due.changes;
}

bool SumTable::erase_unchanged(const Due& due) {
  if (!unchanged(due)) return false;
  erase(due.object, due.index);
  return true;
}

void SumTable::drop_oldest(std::size_t bytes, const Object& mine, std::uint64_t first,
                           std::uint64_t last) {
  const MutexLock lock(mutex_);
  const auto places = oldest(bytes / kRegionBytes + 1,
                             [&](const Object& object, const State& state, const Region& region) {
                               if (object == mine)
                                 return region.index < first || region.index > last;
                               return !state.turn;
                             });
  const std::size_t wanted = memory_ > bytes ? memory_ - bytes : 0;
  for (const Place& place : places) {
    if (memory_ <= wanted) break;
    erase_region(place.object, place.index);
  }
}

std::size_t SumTable::memory() const {
  const MutexLock lock(mutex_);
  return memory_;
}

}  // namespace weft::ds
