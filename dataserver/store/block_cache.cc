#include "dataserver/store/block_cache.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "rpc/base/assert.h"
#include "rpc/base/mutex.h"

namespace weft::ds {

namespace {

constexpr std::uint64_t kBlock = BlockCache::kBlock;
constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

std::uint64_t block_floor(std::uint64_t at) { return at / kBlock * kBlock; }
std::uint64_t block_ceil(std::uint64_t at) {
  return at > BlockCache::kToTheEnd - kBlock ? BlockCache::kToTheEnd : block_floor(at + kBlock - 1);
}

// Bytes [skip, skip + into.size()) of a payload without file ranges; zeros behind its end.
void copy_out(const Payload& payload, std::uint64_t skip, std::span<std::byte> into) {
  std::uint64_t at = 0;  // of the piece, in the payload
  std::size_t done = 0;
  for (const Payload::Piece& piece : payload.pieces()) {
    const std::uint64_t size = size_of(piece);
    const std::uint64_t from = skip + done;
    if (from < at + size && done < into.size()) {
      const auto part =
          static_cast<std::size_t>(std::min<std::uint64_t>(at + size - from, into.size() - done));
      if (const auto* buffer = std::get_if<Buffer>(&piece)) {
        std::memcpy(into.data() + done, buffer->data() + (from - at), part);
      } else {
        std::memset(into.data() + done, 0, part);
      }
      done += part;
    }
    at += size;
  }
  std::memset(into.data() + done, 0, into.size() - done);
}

// What of `data`, written from `at` on, is in the block that begins at `begin`.
void overlay(std::span<std::byte> block, std::uint64_t begin, std::uint64_t at,
             const std::vector<Buffer>& data) {
  for (const Buffer& piece : data) {
    const std::uint64_t from = std::max(at, begin);
    const std::uint64_t to = std::min(at + piece.size(), begin + block.size());
    if (from < to)
      std::memcpy(block.data() + (from - begin), piece.data() + (from - at), to - from);
    at += piece.size();
  }
}

}  // namespace

// --- Memory --------------------------------------------------------------------------------------

class BlockCache::Slab : public std::enable_shared_from_this<Slab> {
 public:
  Slab(std::byte* memory, std::size_t blocks) : memory_(memory), blocks_(blocks) {}
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;
  ~Slab() { ::munmap(memory_, blocks_ * kBlock); }

  [[nodiscard]] std::size_t blocks() const { return blocks_; }
  // Empty: all are in use.
  [[nodiscard]] Buffer take() {
    std::size_t which = 0;
    {
      const MutexLock lock(mutex_);
      if (!idle_.empty()) {
        which = idle_.back();
        idle_.pop_back();
      } else if (touched_ < blocks_) {
        which = touched_++;
      } else {
        return {};
      }
    }
    return Buffer::foreign({memory_ + which * kBlock, kBlock},
                           [self = shared_from_this(), which] { self->give(which); });
  }

 private:
  void give(std::size_t which) {
    const MutexLock lock(mutex_);
    idle_.push_back(static_cast<std::uint32_t>(which));
  }

  std::byte* const memory_;
  const std::size_t blocks_;
  Mutex mutex_;
  std::vector<std::uint32_t> idle_ WEFT_GUARDED_BY(mutex_);
  std::size_t touched_ WEFT_GUARDED_BY(mutex_) = 0;  // those that were ever in use
};

Result<std::unique_ptr<BlockCache>> BlockCache::create(std::size_t bytes) {
  WEFT_ASSERT(bytes >= kLeast);
  // What knows a block: nodes of the two containers, the handle's, and the object's.
  constexpr std::size_t kNodes = sizeof(Entry) + 16 + 64 + 128 + sizeof(Object) + 32;
  static_assert(kNodes <= kBookkeeping);
  const std::size_t blocks = bytes / (kBlock + kBookkeeping);
  void* memory = ::mmap(nullptr, blocks * kBlock, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return fail_errno(errno, "memory for a cache");
  auto slab = std::make_shared<Slab>(static_cast<std::byte*>(memory), blocks);
  return std::unique_ptr<BlockCache>(new BlockCache(std::move(slab)));
}

BlockCache::BlockCache(std::shared_ptr<Slab> slab) : slab_(std::move(slab)) {
  view_.capacity_blocks = slab_->blocks();
}

BlockCache::~BlockCache() { WEFT_ASSERT(once_.empty() && again_.empty()); }

std::vector<Buffer> BlockCache::room_for(std::size_t blocks) {
  std::vector<Buffer> room;
  // What is pushed out may still be on its way to somebody, and gives no room then.
  std::size_t tries = 2 * blocks;
  while (room.size() < blocks) {
    if (Buffer one = slab_->take(); !one.empty()) {
      room.push_back(std::move(one));
    } else if (tries-- == 0 || !evict_one()) {
      break;
    }
  }
  return room;
}

// --- Replacement ---------------------------------------------------------------------------------

void BlockCache::touch(Entries::iterator entry) {
  again_.splice(again_.begin(), entry->again ? again_ : once_, entry);
  entry->again = true;
}

// The second list has what was pushed out of it go on in the first.
void BlockCache::balance() {
  while (again_.size() > slab_->blocks() / 4 * 3) {
    const auto last = std::prev(again_.end());
    last->again = false;
    once_.splice(once_.begin(), again_, last);
  }
}

void BlockCache::insert(Object& object, std::uint64_t index, Buffer bytes, bool again) {
  const auto [block, fresh] = object.blocks.try_emplace(index);
  if (!fresh) return;
  Entries& list = again ? again_ : once_;
  list.push_front({&object, index, std::move(bytes), again});
  block->second = list.begin();
  view_.blocks.fetch_add(1, std::memory_order_relaxed);
}

void BlockCache::erase(std::map<std::uint64_t, Entries::iterator>::iterator block, Object& object) {
  const Entries::iterator entry = block->second;
  (entry->again ? again_ : once_).erase(entry);
  object.blocks.erase(block);
  view_.blocks.fetch_sub(1, std::memory_order_relaxed);
}

bool BlockCache::evict_one() {
  Entries& list = once_.empty() ? again_ : once_;
  if (list.empty()) return false;
  Object& object = *list.back().object;
  erase(object.blocks.find(list.back().index), object);
  forget_if_empty(object);
  view_.evictions.fetch_add(1, std::memory_order_relaxed);
  return true;
}

// --- What is under way ---------------------------------------------------------------------------

void BlockCache::forget_if_empty(Object& object) {
  if (object.blocks.empty() && object.guards.empty()) {
    object.area->objects_.erase(layout::ObjectId(object.id));
  }
}

void BlockCache::end_guard(Object& object, std::list<Guard>::iterator guard) {
  object.guards.erase(guard);
  forget_if_empty(object);
}

void BlockCache::check_verifier(Area& area) {
  const WriteVerifier now = area.store_.verifier();
  if (now == area.verifier_) return;
  area.verifier_ = now;
  ++area.epoch_;
  bool any = false;
  for (auto at = area.objects_.begin(); at != area.objects_.end();) {
    Object& object = at->second;
    any = any || !object.blocks.empty();
    while (!object.blocks.empty()) erase(object.blocks.begin(), object);
    object.end_known = false;
    object.movers_good = false;
    at = object.guards.empty() ? area.objects_.erase(at) : std::next(at);
  }
  if (any) view_.lost.fetch_add(1, std::memory_order_relaxed);
}

// --- Reads ---------------------------------------------------------------------------------------

std::optional<ReadResult> BlockCache::take(Object& object, std::uint64_t offset,
                                           std::uint32_t count) {
  if (!object.end_known) return std::nullopt;
  const std::uint64_t wanted = offset + count;
  // Where the object ends just now, only the store beneath knows.
  if (object.movers > 0 && wanted > object.end) return std::nullopt;
  const std::uint64_t end = std::min(wanted, object.end);
  ReadResult result{.object_end = object.end};
  if (offset >= end) return result;
  const auto first = object.blocks.find(offset / kBlock);
  auto block = first;
  for (std::uint64_t at = block_floor(offset); at < end; at += kBlock, ++block) {
    if (block == object.blocks.end() || block->first != at / kBlock) return std::nullopt;
  }
  block = first;
  for (std::uint64_t at = offset; at < end; ++block) {
    const std::size_t from = at % kBlock;
    const std::size_t size = std::min<std::uint64_t>(kBlock - from, end - at);
    auto part = block->second->bytes.share(from, size);
    WEFT_ASSERT(part.has_value());
    result.payload.append(std::move(*part));
    touch(block->second);
    at += size;
  }
  balance();
  return result;
}

std::optional<ReadResult> BlockCache::find(Area& area, const layout::ObjectId& object,
                                           std::uint64_t offset, std::uint32_t count,
                                           Ticket& fill) {
  const MutexLock lock(mutex_);
  check_verifier(area);
  if (const auto known = area.objects_.find(object); known != area.objects_.end()) {
    if (auto result = take(known->second, offset, count)) {
      view_.hits.fetch_add(1, std::memory_order_relaxed);
      view_.hit_bytes.fetch_add(result->payload.size(), std::memory_order_relaxed);
      return result;
    }
  }
  view_.misses.fetch_add(1, std::memory_order_relaxed);
  if (!area.store_.settled()) return std::nullopt;
  const std::uint64_t begin = block_floor(offset);
  const std::uint64_t end = block_ceil(offset + count);
  Object& of = area.objects_.try_emplace(object, Object{.area = &area, .id = object}).first->second;
  for (const Guard& guard : of.guards) {
    if (guard.change && guard.begin < end && begin < guard.end) return std::nullopt;
  }
  of.guards.push_back({.begin = begin,
                       .end = end,
                       .change = false,
                       .mover = false,
                       .spoiled = false,
                       .epoch = area.epoch_,
                       .end_version = of.movers == 0 ? of.end_version : kNever});
  fill.object_ = &of;
  fill.guard_ = std::prev(of.guards.end());
  return std::nullopt;
}

void BlockCache::filled(Area& area, Ticket fill, std::uint64_t at, const ReadResult* result) {
  if (!fill) return;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  if (result != nullptr && !result->payload.pieces().empty()) {
    const std::uint64_t end = at + result->payload.size();
    first = block_ceil(at) / kBlock;
    last = end == result->object_end ? block_ceil(end) / kBlock : end / kBlock;
    for (const Payload::Piece& piece : result->payload.pieces()) {
      if (std::holds_alternative<FileRange>(piece)) last = 0;  // it would have to be read
    }
  }
  std::vector<std::uint64_t> absent;
  std::vector<Buffer> room;
  if (first < last) {
    const MutexLock lock(mutex_);
    if (!fill.guard_->spoiled) room = room_for(look_up(*fill.object_, first, last, absent));
  }
  for (std::size_t i = 0; i < room.size(); ++i) {
    copy_out(result->payload, absent[i] * kBlock - at, room[i].span());
  }
  const MutexLock lock(mutex_);
  check_verifier(area);
  Object& object = *fill.object_;
  const Guard guard = *fill.guard_;
  if (result != nullptr && guard.epoch == area.epoch_) {
    if (guard.end_version == object.end_version) {
      object.end = result->object_end;
      object.end_known = true;
    }
    for (std::size_t i = 0; i < room.size() && !guard.spoiled; ++i) {
      insert(object, absent[i], std::move(room[i]), false);
    }
    view_.filled_blocks.fetch_add(guard.spoiled ? 0 : room.size(), std::memory_order_relaxed);
  }
  end_guard(object, fill.guard_);
}

// Those of blocks [first, last) that are not here; those that are have been found once more.
std::size_t BlockCache::look_up(Object& object, std::uint64_t first, std::uint64_t last,
                                std::vector<std::uint64_t>& absent) {
  for (std::uint64_t index = first; index < last; ++index) {
    const auto block = object.blocks.find(index);
    if (block == object.blocks.end()) {
      absent.push_back(index);
    } else {
      touch(block->second);
    }
  }
  balance();
  return absent.size();
}

// --- Changes -------------------------------------------------------------------------------------

BlockCache::Ticket BlockCache::begin_change(Area& area, const layout::ObjectId& object,
                                            std::uint64_t begin, std::uint64_t end, Kind kind) {
  const MutexLock lock(mutex_);
  check_verifier(area);
  Object& of = area.objects_.try_emplace(object, Object{.area = &area, .id = object}).first->second;
  const bool mover =
      kind == Kind::kOuter || (kind == Kind::kWrite && !(of.end_known && end <= of.end));
  if (mover) {
    if (of.movers++ == 0) {
      of.movers_good = true;
      of.moved_to = 0;
    }
    ++of.end_version;
    if (kind == Kind::kOuter) of.movers_good = of.end_known = false;
    if (!area.store_.settled()) of.movers_good = false;
  }
  Guard mine{.begin = block_floor(begin),
             .end = begin < end ? block_ceil(end) : block_floor(begin),
             .change = true,
             .mover = mover,
             .spoiled = false,
             .epoch = area.epoch_,
             .end_version = of.end_version};
  for (Guard& guard : of.guards) {
    if (guard.begin < mine.end && mine.begin < guard.end) guard.spoiled = true;
  }
  Ticket change;
  for (auto block = of.blocks.lower_bound(mine.begin / kBlock);
       block != of.blocks.end() && block->first * kBlock < mine.end;) {
    Entry& entry = *block->second;
    if (kind == Kind::kWrite) {
      change.kept_.push_back({entry.index, std::move(entry.bytes), entry.again});
    }
    erase(block++, of);
  }
  of.guards.push_back(mine);
  change.object_ = &of;
  change.guard_ = std::prev(of.guards.end());
  return change;
}

void BlockCache::changed(Area& area, Ticket change, const WriteResult* result, std::uint64_t at,
                         const std::vector<Buffer>& data) {
  if (result == nullptr || data.empty()) change.kept_.clear();
  // Who still has a handle is reading what it was.
  std::erase_if(change.kept_, [](const Kept& kept) { return !kept.bytes.unique(); });
  for (Kept& kept : change.kept_) overlay(kept.bytes.span(), kept.index * kBlock, at, data);
  const MutexLock lock(mutex_);
  check_verifier(area);
  Object& object = *change.object_;
  const Guard guard = *change.guard_;
  const bool same = guard.epoch == area.epoch_;
  const bool good = result != nullptr && same;
  if (good && !guard.spoiled) {
    for (Kept& kept : change.kept_) {
      insert(object, kept.index, std::move(kept.bytes), kept.again);
    }
    balance();
  }
  if (guard.mover) {
    ++object.end_version;
    if (good) {
      object.moved_to = std::max(object.moved_to, result->object_end);
      object.end = std::max(object.end, result->object_end);
    } else {
      object.movers_good = object.end_known = false;
    }
    if (--object.movers == 0 && object.movers_good) {
      object.end = object.moved_to;
      object.end_known = true;
    }
  } else if (!same || guard.end_version != object.end_version) {
    // The object was cut, or lost its end, before this put it back where it was.
    ++object.end_version;
    object.movers_good = object.end_known = false;
  }
  end_guard(object, change.guard_);
}

// --- Areas ---------------------------------------------------------------------------------------

BlockCache::Area::Area(BlockCache& cache, Store& store)
    : cache_(cache), store_(store), verifier_(store.verifier()) {}

BlockCache::Area::~Area() {
  const MutexLock lock(cache_.mutex_);
  for (auto& [id, object] : objects_) {
    WEFT_ASSERT(object.guards.empty());
    while (!object.blocks.empty()) cache_.erase(object.blocks.begin(), object);
  }
}

}  // namespace weft::ds
