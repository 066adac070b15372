#include "dataserver/ring/range_locks.h"

#include "rpc/base/assert.h"

namespace weft::ds {

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

bool RangeLocks::must_wait(const std::list<Entry>& entries,
                           std::list<Entry>::const_iterator entry) {
  for (auto at = entries.begin(); at != entry; ++at) {
    if (!at->range.overlaps(entry->range) || at->kind == Kind::kReader) continue;
    if (entry->kind == Kind::kHold) return true;
    // A reader waits for those that write here now. Who has no grant yet has sent nothing either.
    if (at->granted && at->local_pending) return true;
  }
  return false;
}

void RangeLocks::acquire(const layout::ObjectId& object, ByteRange range, Granted granted) {
  Shard& shard = shard_of(object);
  Hold hold;
  {
    const MutexLock lock(shard.mutex);
    std::list<Entry>& entries = shard.objects[object];
    Entry& entry = entries.emplace_back();
    entry.range = range;
    entry.ring = IoRing::current();
    WEFT_ASSERT(entry.ring != nullptr);
    const auto at = std::prev(entries.end());
    if (must_wait(entries, at)) {
      entry.on_hold = std::move(granted);
      return;
    }
    entry.granted = true;
    hold.locks_ = this;
    hold.object_ = object;
    hold.entry_ = at;
  }
  granted(std::move(hold));
}

void RangeLocks::when_local(const layout::ObjectId& object, ByteRange range,
                            std::function<void()> done) {
  Shard& shard = shard_of(object);
  {
    const MutexLock lock(shard.mutex);
    const auto found = shard.objects.find(object);
    if (found != shard.objects.end()) {
      std::list<Entry>& entries = found->second;
      Entry& entry = entries.emplace_back();
      entry.kind = Kind::kReader;
      entry.range = range;
      entry.ring = IoRing::current();
      WEFT_ASSERT(entry.ring != nullptr);
      const auto at = std::prev(entries.end());
      if (must_wait(entries, at)) {
        entry.on_local = std::move(done);
        return;
      }
      entries.erase(at);
    }
  }
  done();
}

void RangeLocks::wake(const layout::ObjectId& object, std::list<Entry>& entries, Calls& calls) {
  for (auto at = entries.begin(); at != entries.end();) {
    const auto entry = at++;
    if (entry->granted || must_wait(entries, entry)) continue;
    if (entry->kind == Kind::kReader) {
      calls.emplace_back(entry->ring, std::move(entry->on_local));
      entries.erase(entry);
      continue;
    }
    entry->granted = true;
    Hold hold;
    hold.locks_ = this;
    hold.object_ = object;
    hold.entry_ = entry;
    calls.emplace_back(entry->ring,
                       [granted = std::move(entry->on_hold), hold = std::move(hold)]() mutable {
                         granted(std::move(hold));
                       });
  }
}

void RangeLocks::run(Calls calls) {
  for (auto& [ring, call] : calls) ring->post(std::move(call));
}

void RangeLocks::local_done(const layout::ObjectId& object, std::list<Entry>::iterator entry) {
  Shard& shard = shard_of(object);
  Calls calls;
  {
    const MutexLock lock(shard.mutex);
    if (!std::exchange(entry->local_pending, false)) return;
    std::list<Entry>& entries = shard.objects.at(object);
    if (entries.size() > 1) wake(object, entries, calls);
  }
  run(std::move(calls));
}

void RangeLocks::release(const layout::ObjectId& object, std::list<Entry>::iterator entry) {
  Shard& shard = shard_of(object);
  Calls calls;
  {
    const MutexLock lock(shard.mutex);
    const auto found = shard.objects.find(object);
    found->second.erase(entry);
    if (found->second.empty()) {
      shard.objects.erase(found);
    } else {
      wake(object, found->second, calls);
    }
  }
  run(std::move(calls));
}

std::size_t RangeLocks::size() const {
  std::size_t size = 0;
  for (const Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    for (const auto& [object, entries] : shard.objects) size += entries.size();
  }
  return size;
}

}  // namespace weft::ds
