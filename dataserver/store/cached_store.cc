#include "dataserver/store/cached_store.h"

#include <algorithm>

#include "rpc/base/assert.h"
#include "rpc/base/payload_copy.h"

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

// The result with its bytes in the caller's room.
Result<ReadResult> in_room(Result<ReadResult> result, Buffer room) {
  if (!result) return result;
  room.truncate(result->payload.size());
  if (auto copied = copy_payload(result->payload, room.span()); !copied) return pass(copied);
  result->payload = {};
  if (!room.empty()) result->payload.append(std::move(room));
  return result;
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
  BlockCache::Ticket fill;
  Done<ReadResult> done;

  [[nodiscard]] bool wider() const { return from != offset || size != count; }
  void answer(Result<ReadResult> result) {
    done(room.empty() ? std::move(result) : in_room(std::move(result), std::move(room)));
  }
};

void CachedStore::read(const layout::ObjectId& object, std::uint64_t offset, std::uint32_t count,
                       Done<ReadResult> done) {
  read_into(object, offset, count, {}, std::move(done));
}

void CachedStore::read_into(const layout::ObjectId& object, std::uint64_t offset,
                            std::uint32_t count, Buffer room, Done<ReadResult> done) {
  auto op = std::make_unique<ReadOp>();
  op->object = object;
  op->offset = op->from = offset;
  op->count = op->size =
      room.empty() ? count : static_cast<std::uint32_t>(std::min<std::size_t>(count, room.size()));
  op->room = std::move(room);
  op->done = std::move(done);
  if (count == 0 || offset > kMaxOffset) return read_beneath(std::move(op));
  if (auto found = cache_.find(area_, object, offset, op->count, op->fill)) {
    return op->answer(std::move(*found));
  }
  if (op->fill) {
    const std::uint64_t begin = offset / kBlock * kBlock;
    const std::uint64_t end = (offset + op->count + kBlock - 1) / kBlock * kBlock;
    if (end - begin <= kMaxRead) {
      op->from = begin;
      op->size = static_cast<std::uint32_t>(end - begin);
    }
  }
  read_beneath(std::move(op));
}

void CachedStore::read_beneath(std::unique_ptr<ReadOp> op) {
  const ReadOp& what = *op;
  Buffer room;
  if (!op->wider()) room = std::move(op->room);
  auto done = [this, op = std::move(op)](Result<ReadResult> result) mutable {
    read_done(std::move(op), std::move(result));
  };
  if (room.empty()) {
    return beneath_.read(what.object, what.from, what.size, std::move(done));
  }
  beneath_.read_into(what.object, what.from, what.size, std::move(room), std::move(done));
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

void CachedStore::write(const layout::ObjectId& object, std::uint64_t offset,
                        std::vector<Buffer> data, Stability wanted, Done<WriteResult> done) {
  std::uint64_t size = 0;
  for (const Buffer& piece : data) size += piece.size();
  auto change =
      cache_.begin_change(area_, object, offset, end_of(offset, size), BlockCache::Kind::kWrite);
  std::vector<Buffer> handles;
  if (change.has_blocks()) {
    for (const Buffer& piece : data) {
      auto shared = piece.share(0, piece.size());
      WEFT_ASSERT(shared.has_value());
      handles.push_back(std::move(*shared));
    }
  }
  beneath_.write(object, offset, std::move(data), wanted,
                 ending_write(std::move(change), offset, std::move(handles), std::move(done)));
}

void CachedStore::write_piped(const layout::ObjectId& object, std::uint64_t offset, PipedBytes data,
                              Stability wanted, Done<WriteResult> done) {
  auto change = cache_.begin_change(area_, object, offset, end_of(offset, data.size()),
                                    BlockCache::Kind::kWrite);
  beneath_.write_piped(object, offset, std::move(data), wanted,
                       ending_write(std::move(change), offset, {}, std::move(done)));
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
