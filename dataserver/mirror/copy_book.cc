#include "dataserver/mirror/copy_book.h"

namespace weft::ds {

bool CopyBook::missed(const layout::ObjectId& object, std::uint32_t partner, std::uint32_t epoch,
                      ByteRange range) {
  Shard& shard = shard_of(object);
  const MutexLock lock(shard.mutex);
  const auto found = shard.copies.find({object, partner});
  if (found == shard.copies.end()) return false;
  Copy& copy = found->second;
  if (epoch > copy.epoch) copy.missed = {};
  return copy.missed.covers(range) && !copy.missed.empty();
}

void CopyBook::mark_missed(const layout::ObjectId& object, std::uint32_t partner,
                           std::uint32_t epoch, const ExtentSet& extents) {
  Shard& shard = shard_of(object);
  const MutexLock lock(shard.mutex);
  make_room(shard);
  Copy& copy = shard.copies[{object, partner}];
  if (epoch > copy.epoch) {
    copy.epoch = epoch;
    copy.missed = {};
  }
  // Joining extents would claim more than was reported. Past the limit the rest is not kept, and
  // reported each time.
  constexpr std::size_t kMaxExtents = 4096;
  for (const ByteRange& range : extents.extents()) {
    if (copy.missed.extents().size() >= kMaxExtents) break;
    copy.missed.add(range, kMaxExtents + 1);
  }
}

void CopyBook::forget(const layout::ObjectId& object, std::uint32_t partner) {
  Shard& shard = shard_of(object);
  const MutexLock lock(shard.mutex);
  const auto found = shard.copies.find({object, partner});
  if (found == shard.copies.end()) return;
  found->second.missed = {};
  drop_if_empty(shard, {object, partner});
}

CopyBook::Generation& CopyBook::present(Shard& shard, const Key& key) {
  make_room(shard);
  Copy& copy = shard.copies[key];
  if (copy.open == 0) copy.open = shard.next_generation++;
  return copy.owed[copy.open];
}

void CopyBook::add_uncommitted(const layout::ObjectId& object, std::uint32_t partner,
                               ByteRange range) {
  Shard& shard = shard_of(object);
  const MutexLock lock(shard.mutex);
  present(shard, {object, partner}).uncommitted.add(range);
}

void CopyBook::add_unreported(const layout::ObjectId& object, std::uint32_t partner,
                              ByteRange range) {
  Shard& shard = shard_of(object);
  const MutexLock lock(shard.mutex);
  present(shard, {object, partner}).unreported.add(range);
}

CopyBook::Owed CopyBook::owed(const layout::ObjectId& object, std::uint32_t partner) {
  Shard& shard = shard_of(object);
  const MutexLock lock(shard.mutex);
  const auto found = shard.copies.find({object, partner});
  if (found == shard.copies.end()) return {};
  Copy& copy = found->second;
  Owed owed{.generation = shard.next_generation - 1, .uncommitted = {}, .unreported = {}};
  for (const auto& [number, generation] : copy.owed) {
    owed.uncommitted.add(generation.uncommitted);
    owed.unreported.add(generation.unreported);
  }
  copy.open = 0;
  return owed;
}

void CopyBook::settled(const layout::ObjectId& object, std::uint32_t partner,
                       std::uint64_t generation) {
  Shard& shard = shard_of(object);
  const MutexLock lock(shard.mutex);
  const auto found = shard.copies.find({object, partner});
  if (found == shard.copies.end()) return;
  auto& owed = found->second.owed;
  owed.erase(owed.begin(), owed.upper_bound(generation));
  if (!owed.contains(found->second.open)) found->second.open = 0;
  drop_if_empty(shard, {object, partner});
}

void CopyBook::remove(const layout::ObjectId& object) {
  Shard& shard = shard_of(object);
  const MutexLock lock(shard.mutex);
  std::erase_if(shard.copies, [&](const auto& copy) { return copy.first.object == object; });
}

void CopyBook::drop_if_empty(Shard& shard, const Key& key) {
  const auto found = shard.copies.find(key);
  if (found == shard.copies.end()) return;
  if (found->second.missed.empty() && found->second.owed.empty()) shard.copies.erase(found);
}

void CopyBook::make_room(Shard& shard) {
  if (shard.copies.size() < kMaxCopies) return;
  std::erase_if(shard.copies, [](const auto& copy) { return copy.second.owed.empty(); });
}

std::size_t CopyBook::size() const {
  std::size_t size = 0;
  for (const Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    size += shard.copies.size();
  }
  return size;
}

}  // namespace weft::ds
