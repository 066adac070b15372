// Reading from a parity group.
#include <algorithm>

#include "dataserver/parity/parity_internal.h"

namespace weft::ds {

namespace {

constexpr std::uint64_t kRunBytes = std::uint64_t{512} << 10;  // at each member, at a time
constexpr std::uint64_t kMaxRead = std::uint64_t{4} << 20;

std::uint64_t block_begin(std::uint64_t offset) { return offset / kParityBlock * kParityBlock; }
std::uint64_t block_end(std::uint64_t offset) { return block_begin(offset + kParityBlock - 1); }

}  // namespace

void ParityStore::read(const ObjectId& object, std::uint64_t offset, std::uint32_t count,
                       Done<ReadResult> done) {
  run<ReadResult>(do_read(object, offset, count), std::move(done));
}

Task<Result<ReadResult>> ParityStore::do_read(ObjectId object, std::uint64_t offset,
                                              std::uint32_t count) {
  auto state = co_await find(object);
  if (!state) co_return pass(state);
  ReadResult result;
  std::uint64_t end = 0;
  std::uint64_t generation = 0;
  {
    const MutexLock lock(mutex_);
    if (!(*state)->exists) co_return fail(Errc::kNotFound, "no object " + to_string(object));
    result.object_end = (*state)->size;
    generation = (*state)->generation;
    if (offset >= result.object_end || count == 0) co_return result;
    end = std::min(result.object_end, offset + std::min<std::uint64_t>(count, kMaxRead));
  }
  bool odd = false;
  auto read = co_await until_done(generation, [&](Op& op) -> Task<Result<>> {
    odd = false;
    result.payload = {};
    return read_plain(op, object, offset, end, result.payload, odd);
  });
  if (!read) co_return pass(read);
  if (!odd) co_return result;
  // A block did not match, was being written meanwhile, or is at a member that is out.
  const Hold hold = co_await lock(object, stripe_range(offset, end));
  read = co_await until_done(generation, [&](Op& op) -> Task<Result<>> {
    result.payload = {};
    return read_computed(op, object, offset, end, result.payload);
  });
  if (!read) co_return pass(read);
  co_return result;
}

// In the order of the object.
std::vector<ParityStore::Piece> ParityStore::pieces_of(std::uint64_t begin,
                                                       std::uint64_t end) const {
  std::vector<Piece> pieces;
  const std::uint64_t chunk = geometry().chunk;
  for (std::uint64_t at = begin; at < end;) {
    const std::uint64_t stripe = geometry().stripe_of(at);
    const std::uint64_t within = at % geometry().width();
    const std::uint64_t size = std::min(end - at, chunk - within % chunk);
    pieces.push_back({geometry().data_member(stripe, static_cast<unsigned>(within / chunk)),
                      stripe * chunk + within % chunk, size});
    at += size;
  }
  return pieces;
}

// `odd` when something must be computed, or looked at with nobody writing.
Task<Result<>> ParityStore::read_plain(Op& op, ObjectId object, std::uint64_t begin,
                                       std::uint64_t end, Payload& into, bool& odd) {
  const auto pieces = pieces_of(begin, end);
  const std::uint32_t gone = gone_of(object);
  odd = std::ranges::any_of(pieces, [&](const Piece& p) {
    return !op.mode.readable(p.member) || (gone >> p.member & 1) != 0;
  });
  if (odd) co_return Result<>{};
  std::vector<Payload> data(pieces.size());
  std::vector<ByteRange> range(members());  // blocks of a member
  for (const Piece& piece : pieces) {
    ByteRange& whole = range[piece.member];
    const std::uint64_t first = piece.offset / kParityBlock;
    if (whole.end == 0) whole.begin = first;
    whole.end = block_end(piece.offset + piece.size) / kParityBlock;
  }
  std::vector<Payload> sums(members());
  Join join;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::uint64_t from = block_begin(pieces[i].offset);
    const std::uint64_t to = block_end(pieces[i].offset + pieces[i].size);
    child_read(op, join, pieces[i].member, object, from, static_cast<std::uint32_t>(to - from),
               data[i]);
  }
  for (unsigned member = 0; member < members(); ++member) {
    const ByteRange& blocks = range[member];
    if (blocks.end == 0) continue;
    child_read(op, join, member, sums_of(object), kSumsAt + blocks.begin * kSumBytes,
               static_cast<std::uint32_t>((blocks.end - blocks.begin) * kSumBytes), sums[member]);
  }
  co_await join;
  if (op.failed != 0) co_return fail(Errc::kIo, "a member of the parity group failed");
  std::vector<Buffer> sum_bytes(members());
  for (unsigned member = 0; member < members(); ++member) {
    const std::size_t size = (range[member].end - range[member].begin) * kSumBytes;
    if (size == 0) continue;
    auto bytes = gather(std::move(sums[member]), size, parts_.pool);
    if (!bytes) co_return pass(bytes);
    sum_bytes[member] = std::move(*bytes);
  }
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    const std::uint64_t from = block_begin(piece.offset);
    const std::size_t size = block_end(piece.offset + piece.size) - from;
    auto bytes = gather(std::move(data[i]), size, parts_.pool);
    if (!bytes) co_return pass(bytes);
    for (std::size_t at = 0; at < size && !odd; at += kParityBlock) {
      const std::uint64_t block = (from + at) / kParityBlock;
      const std::size_t where = (block - range[piece.member].begin) * kSumBytes;
      odd = get_sum(sum_bytes[piece.member].span().subspan(where, kSumBytes)) !=
            sum_block(bytes->span().subspan(at, kParityBlock), object, piece.member, block);
    }
    auto wanted = bytes->share(piece.offset - from, piece.size);
    if (!wanted) co_return pass(wanted);
    into.append(std::move(*wanted));
  }
  co_return Result<>{};
}

// With the stripes held. What does not match is computed, and written anew.
Task<Result<>> ParityStore::read_computed(Op& op, ObjectId object, std::uint64_t begin,
                                          std::uint64_t end, Payload& into) {
  const std::uint64_t width = geometry().width();
  const std::uint64_t chunk = geometry().chunk;
  const std::uint64_t in_chunk = geometry().blocks_in_chunk();
  const std::uint64_t run = std::max<std::uint64_t>(1, kRunBytes / chunk) * width;
  for (std::uint64_t at = begin; at < end;) {
    const std::uint64_t stop = std::min(end, at / width * width + run);
    std::uint64_t first = at / width * in_chunk;
    std::uint64_t last = geometry().stripes(stop) * in_chunk;
    const auto pieces = pieces_of(at, stop);
    if (pieces.size() == 1) {
      first = pieces[0].offset / kParityBlock;
      last = block_end(pieces[0].offset + pieces[0].size) / kParityBlock;
    }
    Image image(members(), object, first, last);
    if (auto loaded = co_await load(op, image, readable(op.mode)); !loaded) co_return loaded;
    const auto was_good = image.good;
    if (auto computed = image.compute(parts_.pool); !computed) co_return computed;
    if (auto repaired = co_await repair(op, image, was_good); !repaired) co_return repaired;
    for (const Piece& piece : pieces) {
      const std::uint64_t row = piece.offset / kParityBlock - first;
      const std::uint64_t rows = block_end(piece.offset + piece.size) / kParityBlock - first;
      for (std::uint64_t i = row; i < rows; ++i) {
        if (image.good[piece.member][i]) continue;
        view_.lost_blocks.fetch_add(1);
        co_return fail(Errc::kIo, "a block of " + to_string(object) + " is lost");
      }
      auto wanted = image.data[piece.member].share(piece.offset - first * kParityBlock, piece.size);
      if (!wanted) co_return pass(wanted);
      into.append(std::move(*wanted));
    }
    at = stop;
  }
  co_return Result<>{};
}

// Writes what was computed where it was found damaged.
Task<Result<>> ParityStore::repair(Op& op, Image& image,
                                   const std::vector<std::vector<bool>>& was_good) {
  std::vector<ChildWrite> writes;
  std::uint64_t blocks = 0;
  for (unsigned member = 0; member < members(); ++member) {
    if (!op.mode.readable(member)) continue;
    for (std::size_t row = 0; row < image.rows; ++row) {
      if (was_good[member][row] || !image.good[member][row]) continue;
      if (auto added = add_write(writes, image, member, row, row + 1); !added) co_return added;
      ++blocks;
    }
  }
  if (blocks == 0) co_return Result<>{};
  Join join;
  for (ChildWrite& w : writes) {
    child_write(op, join, w.member, w.sums ? sums_of(image.object) : image.object, w.offset,
                std::move(w.pieces), Stability::kFileSync);
  }
  co_await join;
  if (op.failed != 0) co_return fail(Errc::kIo, "a member of the parity group failed");
  view_.corrupt_blocks.fetch_add(blocks);
  co_return Result<>{};
}

}  // namespace weft::ds
