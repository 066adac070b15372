#include "dataserver/sums/summed_store.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "dataserver/parity/blocks.h"
#include "dataserver/sums/kept_sum.h"

namespace weft::ds {
namespace {

constexpr int kTries = 3;
constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t blocks_to(std::uint64_t offset) {
  return offset / kParityBlock + (offset % kParityBlock != 0 ? 1 : 0);
}

}  // namespace

SummedStore::SummedStore(Store& beneath, BufferPool& pool, Options options)
    : StoreOver(beneath),
      pool_(pool),
      options_(options),
      kept_(beneath, pool),
      sealer_({.beneath = beneath,
               .pool = pool,
               .table = table_,
               .kept = kept_,
               .view = view_,
               .idle = options.idle}) {}

// --- Which objects there are ---------------------------------------------------------------------

bool SummedStore::may_have(const Object& object) { return !is_sums(object); }

void SummedStore::open(Done<void> done) { spawn(kept_.open(), std::move(done)); }

void SummedStore::remove_all(Store& beneath, Done<void> done) {
  spawn(KeptSums::remove_all(beneath), std::move(done));
}

void SummedStore::list(ListPlace from, std::uint32_t max, Done<ObjectList> done) {
  beneath_.list(from, max, [done = std::move(done)](Result<ObjectList> page) mutable {
    if (page) std::erase_if(page->objects, is_sums);
    done(std::move(page));
  });
}

Result<StoreStat> SummedStore::usage() const {
  auto usage = beneath_.usage();
  if (usage) usage->objects -= std::min(usage->objects, kept_.objects());
  return usage;
}

// --- Reading -------------------------------------------------------------------------------------

void SummedStore::read(StoreRead what, Done<ReadResult> done) {
  spawn(read_checked(std::move(what)), std::move(done));
}

// Whole blocks, of which all are checked.
Task<Result<ReadResult>> SummedStore::read_checked(StoreRead what) {
  constexpr std::uint64_t kMaxOffset = std::numeric_limits<std::int64_t>::max() - kSumRegion;
  if (what.count == 0 || what.offset > kMaxOffset) {
    co_return co_await call<Result<ReadResult>>(
        [&](auto done) { beneath_.read(std::move(what), std::move(done)); });
  }
  const std::uint64_t first = what.offset / kParityBlock;
  const std::uint64_t skip = what.offset % kParityBlock;
  const std::uint64_t size = (blocks_to(what.offset + what.count) - first) * kParityBlock;
  const bool in_room = what.room.size() >= size &&
                       reinterpret_cast<std::uintptr_t>(what.room.data()) % kParityBlock == 0;
  Buffer blocks;
  if (in_room) {
    blocks = std::move(what.room);
  } else {
    auto made = weft::allocate(pool_, what.share, static_cast<std::size_t>(size));
    if (!made) co_return pass(made);
    blocks = std::move(*made);
  }
  std::optional<std::uint64_t> bad;
  for (int tries = 0; tries < kTries; ++tries) {
    auto room = blocks.share(0, static_cast<std::size_t>(size));
    if (!room) co_return pass(room);
    auto read = co_await call<Result<ReadResult>>([&](auto done) {
      beneath_.read({.object = what.object,
                     .offset = first * kParityBlock,
                     .count = static_cast<std::uint32_t>(size),
                     .room = std::move(*room),
                     .uncached = what.uncached},
                    std::move(done));
    });
    if (!read) co_return read;
    const std::size_t have = read->payload.size();
    read->payload = {};
    if (have <= skip) co_return read;
    const std::uint64_t end = first + (have + kParityBlock - 1) / kParityBlock;
    auto sums = co_await read_sums(what.object, first, end);
    if (!sums) co_return pass(sums);
    bad = misfit(what.object, first, blocks.span().first(have), *sums);
    if (bad) continue;
    if (what.uncached) static_cast<void>(co_await adopt(what.object, first, end, *sums));
    auto piece = blocks.share(static_cast<std::size_t>(skip),
                              std::min<std::size_t>(what.count, have - skip));
    if (!piece) co_return pass(piece);
    if (!what.room.empty()) {  // it did not hold the blocks that had to be read
      std::memcpy(what.room.data(), piece->data(), piece->size());
      what.room.truncate(piece->size());
      piece = std::move(what.room);
    }
    read->payload.append(std::move(*piece));
    co_return read;
  }
  co_return bad_block(what.object, *bad);
}

Task<Result<SummedStore::Sums>> SummedStore::read_sums(Object object, std::uint64_t first,
                                                       std::uint64_t end) {
  Sums sums(end - first, kUnknownSum);
  if (table_.fill(object, first, sums)) co_return sums;
  auto kept = co_await kept_.read(object, first, end);
  // They are on the same disk, which has lost them: nothing is known then.
  if (!kept && !(kept.error() == Errc::kIo)) co_return pass(kept);
  sums = kept ? std::move(*kept) : Sums{};
  sums.resize(end - first, kUnknownSum);
  static_cast<void>(table_.fill(object, first, sums));
  co_return sums;
}

std::optional<std::uint64_t> SummedStore::misfit(const Object& object, std::uint64_t first,
                                                 std::span<const std::byte> bytes,
                                                 const Sums& sums) {
  std::uint64_t unknown = 0;
  std::optional<std::uint64_t> bad;
  for (std::size_t i = 0; i < sums.size() && !bad; ++i) {
    const auto block =
        bytes.subspan(i * kParityBlock, std::min(kParityBlock, bytes.size() - i * kParityBlock));
    if (sums[i] == kUnknownSum) {
      ++unknown;
    } else if (kept_sum(block, object, first + i) != sums[i] &&
               table_.sum_of(object, first + i) != kUnknownSum) {  // touched meanwhile
      bad = first + i;
    }
  }
  view_.checked_blocks.fetch_add(sums.size() - unknown, std::memory_order_relaxed);
  view_.unknown_blocks.fetch_add(unknown, std::memory_order_relaxed);
  return bad;
}

std::unexpected<Error> SummedStore::bad_block(const Object& object, std::uint64_t block) {
  view_.bad_blocks.fetch_add(1);
  bad_log_.warn("event=bad_block object={} offset={}", layout::to_string(object),
                block * kParityBlock);
  return fail(Errc::kIo, "a block of " + layout::to_string(object) +
                             " is not what its checksum is of, at " +
                             std::to_string(block * kParityBlock));
}

// What a scrub has read is sealed, as far as nothing was known of it.
Task<Result<>> SummedStore::adopt(Object object, std::uint64_t first, std::uint64_t end,
                                  const Sums& sums) {
  if (std::ranges::find(sums, kUnknownSum) == sums.end()) co_return Result<>{};
  // Writes come first; the next scrub does what is left.
  if (table_.memory() >= options_.memory - options_.memory / 4) co_return Result<>{};
  const SumTable::Turn held = co_await table_.turn(object);
  for (std::uint64_t at = first / kSumRegionBlocks; at <= (end - 1) / kSumRegionBlocks; ++at) {
    if (auto loaded = co_await load(object, at, false); !loaded) co_return loaded;
  }
  table_.adopt(object, first, end, sealer_.now());
  co_return Result<>{};
}

// --- Writes --------------------------------------------------------------------------------------

void SummedStore::write(StoreWrite what, Done<WriteResult> done) {
  const std::uint64_t offset = what.offset;
  const std::uint64_t size = what.size();
  if (size == 0 || size > kMost || offset > kMost - size) {
    return beneath_.write(std::move(what), std::move(done));
  }
  const SumTable::Blocks blocks{.first = offset / kParityBlock,
                                .end = blocks_to(offset + size),
                                .part_of_first = offset % kParityBlock != 0,
                                .part_of_last = (offset + size) % kParityBlock != 0};
  const Object object = what.object;
  // When the disk may have bytes that its checksums are not of.
  auto begun = [this, object, blocks, what = std::move(what)](Done<WriteResult> then) mutable {
    auto ended = [this, object, blocks,
                  then = std::move(then)](Result<WriteResult> result) mutable {
      table_.end_write(object, blocks, sealer_.now());
      then(std::move(result));
    };
    beneath_.write(std::move(what), std::move(ended));
  };
  if (table_.begin_at_once(object, blocks, sealer_.now())) return begun(std::move(done));
  spawn(prepare(object, offset, size, blocks),
        [begun = std::move(begun), done = std::move(done)](Result<> ready) mutable {
          if (!ready) return done(pass(ready));
          begun(std::move(done));
        });
}

Task<Result<>> SummedStore::prepare(Object object, std::uint64_t offset, std::uint64_t size,
                                    SumTable::Blocks blocks) {
  const SumTable::Turn held = co_await table_.turn(object);
  make_room(object, blocks.first, blocks.end);
  for (const std::uint64_t index : table_.missing(object, blocks)) {
    if (auto loaded = co_await load(object, index, true); !loaded) co_return loaded;
  }
  if (blocks.part_of_first) {
    auto fits = co_await part_fits(object, blocks.first, offset, offset + size);
    if (!fits) co_return pass(fits);
    if (!*fits) co_return bad_block(object, blocks.first);
  }
  if (blocks.part_of_last && !(blocks.part_of_first && blocks.end - blocks.first == 1)) {
    auto fits = co_await part_fits(object, blocks.end - 1, offset, offset + size);
    if (!fits) co_return pass(fits);
    if (!*fits) co_return bad_block(object, blocks.end - 1);
  }
  table_.begin(object, blocks, sealer_.now());
  co_return Result<>{};
}

// With the turn.
void SummedStore::make_room(const Object& object, std::uint64_t first, std::uint64_t end) {
  if (table_.memory() < options_.memory) return;
  table_.drop_oldest(options_.memory / 8, object, first / kSumRegionBlocks,
                     (end - 1) / kSumRegionBlocks);
}

// With the turn.
Task<Result<>> SummedStore::load(Object object, std::uint64_t index, bool clear) {
  const std::uint64_t first = index * kSumRegionBlocks;
  if (!table_.has(object, index)) {
    if (table_.memory() >= 2 * options_.memory) {
      co_return fail(Errc::kBusy, "many blocks are written whose checksums are not known yet");
    }
    auto kept = co_await kept_.read(object, first, first + kSumRegionBlocks);
    if (!kept && !(kept.error() == Errc::kIo)) co_return pass(kept);
    SumTable::Region region{.index = index, .sums = {}, .touched = {}};
    region.changed_at = sealer_.now();
    if (kept) {
      region.sums = std::move(*kept);
      while (!region.sums.empty() && region.sums.back() == kUnknownSum) region.sums.pop_back();
      region.cleared = region.sums.empty() && !kept_.unsure();
    }
    table_.add(object, std::move(region));
  }
  if (!clear || table_.is_cleared(object, index)) co_return Result<>{};
  auto cleared = co_await kept_.clear(object, index);
  if (cleared) table_.set_cleared(object, index);
  co_return cleared;
}

// With the turn. Nobody writes into a block that is not touched.
Task<Result<bool>> SummedStore::part_fits(Object object, std::uint64_t block, std::uint64_t offset,
                                          std::uint64_t end) {
  const std::uint64_t wanted = table_.sum_of(object, block).value_or(kUnknownSum);
  if (wanted == kUnknownSum) co_return true;
  const std::uint64_t at = block * kParityBlock;
  auto read = co_await call<Result<ReadResult>>(
      [&](auto done) { beneath_.read(object, at, kParityBlock, std::move(done)); });
  if (!read && read.error() == Errc::kNotFound) co_return true;
  if (!read) co_return pass(read);
  auto bytes = read->payload.flatten();
  if (!bytes) co_return pass(bytes);
  if (offset <= at && end >= at + bytes->size()) co_return true;
  co_return kept_sum(*bytes, object, block) == wanted;
}

// --- Cuts ----------------------------------------------------------------------------------------

// With the turn.
Task<Result<bool>> SummedStore::is_good(Object object, std::uint64_t block) {
  make_room(object, block, block + 1);
  if (auto loaded = co_await load(object, block / kSumRegionBlocks, false); !loaded) {
    co_return pass(loaded);
  }
  auto good = co_await part_fits(object, block, 0, 0);
  if (good && !*good) static_cast<void>(bad_block(object, block));
  co_return good;
}

template <class T, class Go>
Task<Result<T>> SummedStore::cut(Object object, std::uint64_t begin, std::uint64_t end, Go go) {
  const SumTable::Turn held = co_await table_.turn(object);
  std::uint64_t first = begin / kParityBlock;
  std::uint64_t last = end == KeptSums::kToTheEnd ? KeptSums::kToTheEnd : blocks_to(end);
  std::vector<std::uint64_t> parts;
  if (begin % kParityBlock != 0) {
    auto good = co_await is_good(object, first);
    if (!good) co_return pass(good);
    if (*good) parts.push_back(first);
    if (!*good) ++first;
  }
  if (end != KeptSums::kToTheEnd && end % kParityBlock != 0 && last > first) {
    auto good = co_await is_good(object, last - 1);
    if (!good) co_return pass(good);
    if (*good) parts.push_back(last - 1);
    if (!*good) --last;
  }
  if (first < last) {
    auto unknown = co_await kept_.make_unknown(object, first, last);
    if (!unknown) co_return pass(unknown);
    table_.forget(object, first, last);
  }
  for (const std::uint64_t block : parts) table_.adopt(object, block, block + 1, sealer_.now());
  co_return co_await call<Result<T>>([&](auto done) { go(std::move(done)); });
}

void SummedStore::truncate(const layout::ObjectId& object, std::uint64_t size,
                           Done<ObjectStat> done) {
  if (size > kMost) return beneath_.truncate(object, size, std::move(done));
  spawn(cut<ObjectStat>(object, size, KeptSums::kToTheEnd,
                        [this, object, size](Done<ObjectStat> then) {
                          beneath_.truncate(object, size, std::move(then));
                        }),
        std::move(done));
}

void SummedStore::punch(const layout::ObjectId& object, std::uint64_t offset, std::uint64_t size,
                        Done<void> done) {
  if (size == 0 || size > kMost || offset > kMost - size) {
    return beneath_.punch(object, offset, size, std::move(done));
  }
  spawn(cut<void>(object, offset, offset + size,
                  [this, object, offset, size](Done<void> then) {
                    beneath_.punch(object, offset, size, std::move(then));
                  }),
        std::move(done));
}

Task<Result<>> SummedStore::remove_both(Object object) {
  const SumTable::Turn held = co_await table_.turn(object);
  if (auto removed = co_await kept_.remove(object); !removed) co_return removed;
  table_.forget(object, 0, KeptSums::kToTheEnd);
  co_return co_await call<Result<>>([&](auto done) { beneath_.remove(object, std::move(done)); });
}

void SummedStore::remove(const layout::ObjectId& object, Done<void> done) {
  spawn(remove_both(object), std::move(done));
}

}  // namespace weft::ds
