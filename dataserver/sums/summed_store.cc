#include "dataserver/sums/summed_store.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "dataserver/parity/blocks.h"
#include "dataserver/sums/kept_sum.h"

namespace weft::ds {

namespace {

constexpr int kTries = 3;
constexpr std::uint32_t kPage = 1024;

}  // namespace

struct SummedStore::Reading {
  Object object;
  std::uint64_t offset = 0;
  std::uint32_t count = 0;
  Buffer room;
  bool uncached = false;
  [[nodiscard]] std::uint64_t first() const { return offset / kParityBlock; }
  [[nodiscard]] std::uint64_t end() const {
    return (offset + count + kParityBlock - 1) / kParityBlock;
  }
};

SummedStore::SummedStore(Store& beneath, BufferPool& pool, Options options)
    : beneath_(beneath), pool_(pool), options_(options), verifier_(beneath.verifier()) {}

// --- Which objects there are ---------------------------------------------------------------------

// Removes those of a page at once, so that a store syncs each of its folders once for all of them.
Task<Result<std::uint64_t>> SummedStore::each_of_sums(Store& beneath, bool remove) {
  std::uint64_t count = 0;
  for (ListPlace from;;) {
    auto page = co_await call<Result<ObjectList>>(
        [&](auto done) { beneath.list(from, kPage, std::move(done)); });
    if (!page) co_return pass(page);
    std::erase_if(page->objects, [](const Object& object) { return !is_sums(object); });
    count += page->objects.size();
    Result<> removed;
    Join removals;
    for (const Object& object : page->objects) {
      if (!remove) break;
      removals.started();
      beneath.remove(object, [&](Result<> result) {
        if (!result) removed = std::move(result);
        removals.ended();
      });
    }
    co_await removals;
    if (!removed) co_return pass(removed);
    if (!page->more) co_return count;
    from = page->next;
  }
}

void SummedStore::open(Done<void> done) {
  spawn(each_of_sums(beneath_, false),
        [this, done = std::move(done)](Result<std::uint64_t> count) mutable {
          if (!count) return done(pass(count));
          of_sums_.store(*count);
          done(Result<>{});
        });
}

void SummedStore::remove_all(Store& beneath, Done<void> done) {
  spawn(each_of_sums(beneath, true), [done = std::move(done)](Result<std::uint64_t> count) mutable {
    if (!count) return done(pass(count));
    done(Result<>{});
  });
}

void SummedStore::list(ListPlace from, std::uint32_t max, Done<ObjectList> done) {
  beneath_.list(from, max, [done = std::move(done)](Result<ObjectList> page) mutable {
    if (page) std::erase_if(page->objects, is_sums);
    done(std::move(page));
  });
}

Result<StoreStat> SummedStore::usage() const {
  auto usage = beneath_.usage();
  if (usage) usage->objects -= std::min(usage->objects, of_sums_.load());
  return usage;
}

// --- Reading -------------------------------------------------------------------------------------

void SummedStore::read(const layout::ObjectId& object, std::uint64_t offset, std::uint32_t count,
                       Done<ReadResult> done) {
  spawn(read_checked({.object = object, .offset = offset, .count = count, .room = {}}),
        std::move(done));
}

void SummedStore::read_into(const layout::ObjectId& object, std::uint64_t offset,
                            std::uint32_t count, Buffer room, Done<ReadResult> done) {
  count = static_cast<std::uint32_t>(std::min<std::size_t>(count, room.size()));
  spawn(read_checked({.object = object, .offset = offset, .count = count, .room = std::move(room)}),
        std::move(done));
}

void SummedStore::read_uncached(const layout::ObjectId& object, std::uint64_t offset,
                                std::uint32_t count, Done<ReadResult> done) {
  spawn(read_checked(
            {.object = object, .offset = offset, .count = count, .room = {}, .uncached = true}),
        std::move(done));
}

// The blocks of the range, into as much of `into` as they take.
Task<Result<ReadResult>> SummedStore::read_blocks(const Reading& what, Buffer& into) {
  const std::uint64_t at = what.first() * kParityBlock;
  const auto size = static_cast<std::uint32_t>(what.end() * kParityBlock - at);
  auto room = into.share(0, size);
  if (!room) co_return pass(room);
  if (!what.uncached) {
    co_return co_await call<Result<ReadResult>>([&](auto done) {
      beneath_.read_into(what.object, at, size, std::move(*room), std::move(done));
    });
  }
  auto read = co_await call<Result<ReadResult>>(
      [&](auto done) { beneath_.read_uncached(what.object, at, size, std::move(done)); });
  if (!read) co_return pass(read);
  auto bytes = read->payload.flatten();
  if (!bytes) co_return pass(bytes);
  std::ranges::copy(*bytes, room->data());
  read->payload = {};
  room->truncate(bytes->size());
  if (!bytes->empty()) read->payload.append(std::move(*room));
  co_return read;
}

Task<Result<ReadResult>> SummedStore::read_checked(Reading what) {
  constexpr std::uint64_t kMaxOffset = std::numeric_limits<std::int64_t>::max() - kSumRegion;
  if (what.count == 0 || what.offset > kMaxOffset) {
    co_return co_await call<Result<ReadResult>>(
        [&](auto done) { beneath_.read(what.object, what.offset, what.count, std::move(done)); });
  }
  const std::uint64_t skip = what.offset % kParityBlock;
  const std::uint64_t size = (what.end() - what.first()) * kParityBlock;
  const bool in_room = what.room.size() >= size &&
                       reinterpret_cast<std::uintptr_t>(what.room.data()) % kParityBlock == 0;
  Buffer blocks;
  if (in_room) {
    blocks = std::move(what.room);
  } else {
    auto made = pool_.allocate(static_cast<std::size_t>(size));
    if (!made) co_return pass(made);
    blocks = std::move(*made);
  }
  std::optional<std::uint64_t> bad;
  for (int tries = 0; tries < kTries; ++tries) {
    auto read = co_await read_blocks(what, blocks);
    if (!read) co_return read;
    const std::size_t have = read->payload.size();
    read->payload = {};
    if (have <= skip) co_return read;
    const std::uint64_t end = what.first() + (have + kParityBlock - 1) / kParityBlock;
    auto sums = co_await read_sums(what.object, what.first(), end);
    if (!sums) co_return pass(sums);
    bad = misfit(what.object, what.first(), blocks.span().first(have), *sums);
    if (bad) continue;
    if (what.uncached) static_cast<void>(co_await adopt(what.object, what.first(), end, *sums));
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

Task<Result<SummedStore::Sums>> SummedStore::read_kept(Object object, std::uint64_t first,
                                                       std::uint64_t end) {
  auto read = co_await call<Result<ReadResult>>([&](auto done) {
    beneath_.read(sums_of(object), first * kSumBytes,
                  static_cast<std::uint32_t>((end - first) * kSumBytes), std::move(done));
  });
  if (!read && read.error() == Errc::kNotFound) co_return Sums{};
  if (!read) co_return pass(read);
  std::vector<std::byte> copied;
  auto bytes = bytes_of(read->payload, copied);
  if (!bytes) co_return pass(bytes);
  co_return sums_of_bytes(*bytes);
}

Task<Result<SummedStore::Sums>> SummedStore::read_sums(Object object, std::uint64_t first,
                                                       std::uint64_t end) {
  Sums sums(end - first, kUnknownSum);
  if (table_.fill(object, first, sums)) co_return sums;
  auto kept = co_await read_kept(object, first, end);
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
  const SumTable::Turn held = co_await turn(object);
  for (std::uint64_t at = first / kSumRegionBlocks; at <= (end - 1) / kSumRegionBlocks; ++at) {
    if (auto loaded = co_await load(object, at, false); !loaded) co_return loaded;
  }
  table_.adopt(object, first, end, now_.load());
  co_return Result<>{};
}

}  // namespace weft::ds
