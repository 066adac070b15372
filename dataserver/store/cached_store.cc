#include "dataserver/store/cached_store.h"

#include <algorithm>

#include "dataserver/store/vectors.h"
#include "rpc/base/assert.h"

namespace weft::ds {

namespace {

constexpr std::uint64_t kBlock = BlockCache::kBlock;
constexpr std::uint64_t kMaxRead = std::uint64_t{1} << 20;  // what every store answers in one piece
constexpr std::uint64_t kMaxOffset = std::uint64_t{1} << 62;

std::uint64_t end_of(std::uint64_t offset, std::uint64_t size) {
  return size > BlockCache::kToTheEnd - offset ? BlockCache::kToTheEnd : offset + size;
}

// Bytes [skip, skip + size) of a payload, as far as it goes, without a copy.
Payload part_of(Payload whole, std::uint64_t skip, std::uint64_t size) {
  if (skip == 0 && whole.size() <= size) return whole;
  Payload part;
  std::uint64_t at = 0;
  for (Payload::Piece& piece : whole.pieces()) {
    const std::uint64_t begin = std::max(at, skip);
    const std::uint64_t end = std::min(at + size_of(piece), skip + size);
    const std::uint64_t from = at;
    at += size_of(piece);
    if (begin >= end) continue;
    const auto length = static_cast<std::size_t>(end - begin);
    if (auto* buffer = std::get_if<Buffer>(&piece)) {
      auto shared = buffer->share(static_cast<std::size_t>(begin - from), length);
      WEFT_ASSERT(shared.has_value());
      part.append(std::move(*shared));
    } else if (auto* range = std::get_if<FileRange>(&piece)) {
      part.append(FileRange{std::move(range->file), range->offset + (begin - from), length});
    } else {
      part.append(ZeroRange{length});
    }
  }
  return part;
}

}  // namespace

// --- Reading -------------------------------------------------------------------------------------

struct CachedStore::ReadOp {
  layout::ObjectId object;
  std::uint64_t offset = 0;
  std::uint32_t count = 0;
  std::uint64_t from = 0;  // what is asked for beneath
  std::uint32_t size = 0;
  Buffer room;  // of the caller, if it is to be read there
  PoolShare share = PoolShare::kServers;
  bool to_memory = false;
  BlockCache::Ticket fill;
  Done<ReadResult> done;

  [[nodiscard]] bool wider() const { return from != offset || size != count; }
  void answer(Result<ReadResult> result) {
    into_room(std::move(room), std::move(done))(std::move(result));
  }
};

void CachedStore::read(StoreRead what, Done<ReadResult> done) {
  if (what.uncached) return beneath_.read(std::move(what), std::move(done));
  auto op = std::make_unique<ReadOp>();
  op->object = what.object;
  op->offset = op->from = what.offset;
  op->count = op->size = what.count;
  op->room = std::move(what.room);
  op->share = what.share;
  op->to_memory = what.to_memory;
  op->done = std::move(done);
  if (op->count == 0 || op->offset > kMaxOffset) return read_beneath(std::move(op));
  if (auto found = cache_.find(area_, op->object, op->offset, op->count, op->fill)) {
    return op->answer(std::move(*found));
  }
  if (op->fill) {
    const std::uint64_t begin = op->offset / kBlock * kBlock;
    const std::uint64_t end = (op->offset + op->count + kBlock - 1) / kBlock * kBlock;
    if (end - begin <= kMaxRead) {
      op->from = begin;
      op->size = static_cast<std::uint32_t>(end - begin);
    }
  }
  read_beneath(std::move(op));
}

void CachedStore::read_beneath(std::unique_ptr<ReadOp> op) {
  StoreRead what{.object = op->object,
                 .offset = op->from,
                 .count = op->size,
                 .share = op->share,
                 .to_memory = op->to_memory};
  if (!op->wider()) what.room = std::move(op->room);
  beneath_.read(std::move(what), [this, op = std::move(op)](Result<ReadResult> result) mutable {
    read_done(std::move(op), std::move(result));
  });
}

void CachedStore::read_done(std::unique_ptr<ReadOp> op, Result<ReadResult> result) {
  cache_.filled(area_, std::exchange(op->fill, {}), op->from, result ? &*result : nullptr);
  const bool unreadable =
      !result && (result.error() == Errc::kIo || result.error() == Errc::kCorrupt);
  if (unreadable && op->wider()) {
    // What fails may be only what was not asked for.
    op->from = op->offset;
    op->size = op->count;
    return read_beneath(std::move(op));
  }
  if (result) {
    result->payload = part_of(std::move(result->payload), op->offset - op->from, op->count);
  }
  op->answer(std::move(result));
}

// --- Changing ------------------------------------------------------------------------------------

template <class T>
Store::Done<T> CachedStore::ending(BlockCache::Ticket change, Done<T> done) {
  return [this, change = std::move(change), done = std::move(done)](Result<T> result) mutable {
    cache_.changed(area_, std::move(change), nullptr, 0, {});
    done(std::move(result));
  };
}

Store::Done<WriteResult> CachedStore::ending_write(BlockCache::Ticket change, std::uint64_t offset,
                                                   std::vector<Buffer> data,
                                                   Done<WriteResult> done) {
  return [this, change = std::move(change), offset, data = std::move(data),
          done = std::move(done)](Result<WriteResult> result) mutable {
    cache_.changed(area_, std::move(change), result ? &*result : nullptr, offset, data);
    data.clear();
    done(std::move(result));
  };
}

void CachedStore::write(StoreWrite what, Done<WriteResult> done) {
  auto change = cache_.begin_change(area_, what.object, what.offset,
                                    end_of(what.offset, what.size()), BlockCache::Kind::kWrite);
  std::vector<Buffer> handles;
  if (change.has_blocks()) handles = share_all(what.data);
  auto ended = ending_write(std::move(change), what.offset, std::move(handles), std::move(done));
  beneath_.write(std::move(what), std::move(ended));
}

void CachedStore::truncate(const layout::ObjectId& object, std::uint64_t size,
                           Done<ObjectStat> done) {
  auto change =
      cache_.begin_change(area_, object, size, BlockCache::kToTheEnd, BlockCache::Kind::kOuter);
  beneath_.truncate(object, size, ending<ObjectStat>(std::move(change), std::move(done)));
}

void CachedStore::remove(const layout::ObjectId& object, Done<void> done) {
  auto change =
      cache_.begin_change(area_, object, 0, BlockCache::kToTheEnd, BlockCache::Kind::kOuter);
  beneath_.remove(object, ending<void>(std::move(change), std::move(done)));
}

void CachedStore::allocate(const layout::ObjectId& object, std::uint64_t offset, std::uint64_t size,
                           Done<void> done) {
  auto change =
      cache_.begin_change(area_, object, offset, end_of(offset, size), BlockCache::Kind::kOuter);
  beneath_.allocate(object, offset, size, ending<void>(std::move(change), std::move(done)));
}

void CachedStore::punch(const layout::ObjectId& object, std::uint64_t offset, std::uint64_t size,
                        Done<void> done) {
  auto change =
      cache_.begin_change(area_, object, offset, end_of(offset, size), BlockCache::Kind::kInner);
  beneath_.punch(object, offset, size, ending<void>(std::move(change), std::move(done)));
}

}  // namespace weft::ds
