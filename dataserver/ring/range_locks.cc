#include "dataserver/ring/range_locks.h"

#include <algorithm>

#include "rpc/base/assert.h"

namespace weft::ds {

namespace {

constexpr std::uint64_t kCell = std::uint64_t{1} << 20;
constexpr std::uint64_t kMaxCells = 16;

struct Cells {
  explicit Cells(ByteRange range)
      : first(range.begin / kCell), last((std::max(range.end, range.begin + 1) - 1) / kCell) {}
  [[nodiscard]] bool many() const { return last - first >= kMaxCells; }
  std::uint64_t first;
  std::uint64_t last;  // inclusive
};

}  // namespace

RangeLocks::Hold& RangeLocks::Hold::operator=(Hold&& other) noexcept {
  if (this == &other) return *this;
  release();
  locks_ = std::exchange(other.locks_, nullptr);
  object_ = other.object_;
  entry_ = other.entry_;
  return *this;
}

void RangeLocks::Hold::local_done() {
  if (locks_ != nullptr) locks_->local_done(object_, entry_);
}

void RangeLocks::Hold::release() {
  if (locks_ != nullptr) std::exchange(locks_, nullptr)->release(object_, entry_);
}

// --- The ranges of an object ---------------------------------------------------------------------

RangeLocks::Entry& RangeLocks::Ranges::add(std::unique_ptr<Entry> entry) {
  Entry* added = entry.get();
  all.emplace(added->number, std::move(entry));
  const Cells of(added->range);
  if (of.many()) {
    wide.push_back(added);
  } else {
    for (std::uint64_t cell = of.first; cell <= of.last; ++cell) cells[cell].push_back(added);
  }
  return *added;
}

void RangeLocks::Ranges::remove(Entry* entry) {
  const Cells of(entry->range);
  if (of.many()) {
    std::erase(wide, entry);
  } else {
    for (std::uint64_t cell = of.first; cell <= of.last; ++cell) {
      const auto found = cells.find(cell);
      std::erase(found->second, entry);
      if (found->second.empty()) cells.erase(found);
    }
  }
  all.erase(entry->number);
}

// Each once: in the first cell that both touch.
template <class Each>
void RangeLocks::Ranges::overlapping(ByteRange range, Each each) {
  const Cells asked(range);
  if (asked.many()) {
    for (const auto& [number, entry] : all) {
      if (entry->range.overlaps(range)) each(*entry);
    }
    return;
  }
  for (Entry* entry : wide) {
    if (entry->range.overlaps(range)) each(*entry);
  }
  for (std::uint64_t cell = asked.first; cell <= asked.last; ++cell) {
    const auto found = cells.find(cell);
    if (found == cells.end()) continue;
    for (Entry* entry : found->second) {
      const bool here = std::max(asked.first, Cells(entry->range).first) == cell;
      if (here && entry->range.overlaps(range)) each(*entry);
    }
  }
}

// --- Holds ---------------------------------------------------------------------------------------

RangeLocks::Hold RangeLocks::grant(const layout::ObjectId& object, Entry& entry) {
  entry.granted = true;
  Hold hold;
  hold.locks_ = this;
  hold.object_ = object;
  hold.entry_ = &entry;
  return hold;
}

void RangeLocks::acquire(const layout::ObjectId& object, ByteRange range, Granted granted, As as) {
  auto made = std::make_unique<Entry>();
  made->leads = as == As::kLeads;
  made->range = range;
  made->ring = IoRing::current();
  WEFT_ASSERT(made->ring != nullptr);
  Shard& shard = shard_of(object);
  Hold hold;
  {
    const MutexLock lock(shard.mutex);
    Ranges& ranges = shard.objects[object];
    made->number = shard.next++;
    bool led = false;
    ranges.overlapping(range, [&](const Entry& other) {
      if (other.kind == Kind::kHold) ++made->before;
      led = led || other.leads;
    });
    // Who follows is not to wait behind one who waits for who leads, either.
    if (led && as != As::kFollows) made->leads = true;
    if (!led || as != As::kFollows) {
      Entry& entry = ranges.add(std::move(made));
      if (entry.before > 0) {
        entry.on_hold = std::move(granted);
        return;
      }
      hold = grant(object, entry);
    }
  }
  granted(std::move(hold));
}

bool RangeLocks::must_wait(Ranges& ranges, ByteRange range, std::uint64_t number) {
  bool wait = false;
  ranges.overlapping(range, [&](const Entry& other) {
    wait = wait || (other.kind == Kind::kHold && other.number < number && other.granted &&
                    other.local_pending);
  });
  return wait;
}

void RangeLocks::when_local(const layout::ObjectId& object, ByteRange range,
                            std::function<void()> done) {
  Shard& shard = shard_of(object);
  {
    const MutexLock lock(shard.mutex);
    const auto found = shard.objects.find(object);
    const std::uint64_t number = shard.next++;
    if (found != shard.objects.end() && must_wait(found->second, range, number)) {
      auto entry = std::make_unique<Entry>();
      entry->kind = Kind::kReader;
      entry->range = range;
      entry->number = number;
      entry->ring = IoRing::current();
      WEFT_ASSERT(entry->ring != nullptr);
      entry->on_local = std::move(done);
      found->second.add(std::move(entry));
      return;
    }
  }
  done();
}

void RangeLocks::wake(const layout::ObjectId& object, Ranges& ranges, const Entry& entry, bool gone,
                      Calls& calls) {
  std::vector<Entry*> ready;
  ranges.overlapping(entry.range, [&](Entry& other) {
    if (other.number <= entry.number) return;
    const bool reader = other.kind == Kind::kReader;
    if (reader || (gone && --other.before == 0)) ready.push_back(&other);
  });
  std::ranges::sort(ready, {}, &Entry::number);
  for (Entry* other : ready) {
    if (other->kind == Kind::kReader) {
      if (must_wait(ranges, other->range, other->number)) continue;
      calls.emplace_back(other->ring, std::move(other->on_local));
      ranges.remove(other);
      continue;
    }
    calls.emplace_back(
        other->ring, [granted = std::move(other->on_hold), hold = grant(object, *other)]() mutable {
          granted(std::move(hold));
        });
  }
}

void RangeLocks::run(Calls calls) {
  for (auto& [ring, call] : calls) ring->post(std::move(call));
}

void RangeLocks::local_done(const layout::ObjectId& object, Entry* entry) {
  Shard& shard = shard_of(object);
  Calls calls;
  {
    const MutexLock lock(shard.mutex);
    if (!std::exchange(entry->local_pending, false)) return;
    wake(object, shard.objects.at(object), *entry, false, calls);
  }
  run(std::move(calls));
}

void RangeLocks::release(const layout::ObjectId& object, Entry* entry) {
  Shard& shard = shard_of(object);
  Calls calls;
  {
    const MutexLock lock(shard.mutex);
    const auto found = shard.objects.find(object);
    entry->local_pending = false;
    wake(object, found->second, *entry, true, calls);
    found->second.remove(entry);
    if (found->second.all.empty()) shard.objects.erase(found);
  }
  run(std::move(calls));
}

std::size_t RangeLocks::size() const {
  std::size_t size = 0;
  for (const Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    for (const auto& [object, ranges] : shard.objects) size += ranges.all.size();
  }
  return size;
}

}  // namespace weft::ds
