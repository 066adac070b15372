#include <algorithm>
#include <limits>

#include "dataserver/sums/kept_sum.h"
#include "dataserver/sums/summed_store.h"

namespace weft::ds {

namespace {

constexpr std::uint64_t kToTheEnd = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kKeptRegion = kSumRegionBlocks * kSumBytes;  // on the disk
constexpr std::uint64_t kAtOnce = 256;                               // blocks read for a seal
constexpr std::size_t kSealsInAPoll = 1024;
constexpr unsigned kSealers = 8;  // at once
constexpr std::chrono::seconds kPoll{1};

constexpr std::uint64_t blocks_to(std::uint64_t offset) {
  return offset / kParityBlock + (offset % kParityBlock != 0 ? 1 : 0);
}

}  // namespace

// What call() awaits is made anew by each, so this is short.
Task<SumTable::Turn> SummedStore::turn(Object object) {
  co_return co_await call<SumTable::Turn>(
      [&](auto then) { table_.take_turn(object, std::move(then)); });
}

// --- Writes --------------------------------------------------------------------------------------

template <class Go>
void SummedStore::write_by(const Object& object, std::uint64_t offset, std::uint64_t size, Go go,
                           Done<WriteResult> done) {
  if (size == 0 || size > kMost || offset > kMost - size) return go(std::move(done));
  const SumTable::Blocks blocks{.first = offset / kParityBlock,
                                .end = blocks_to(offset + size),
                                .part_of_first = offset % kParityBlock != 0,
                                .part_of_last = (offset + size) % kParityBlock != 0};
  auto begun = [this, object, blocks, go = std::move(go)](Done<WriteResult> then) mutable {
    go([this, object, blocks, then = std::move(then)](Result<WriteResult> result) mutable {
      table_.end_write(object, blocks, now_.load());
      then(std::move(result));
    });
  };
  if (table_.begin_at_once(object, blocks, now_.load())) return begun(std::move(done));
  spawn(prepare(object, offset, size, blocks),
        [begun = std::move(begun), done = std::move(done)](Result<> ready) mutable {
          if (!ready) return done(pass(ready));
          begun(std::move(done));
        });
}

void SummedStore::write(const layout::ObjectId& object, std::uint64_t offset,
                        std::vector<Buffer> data, Stability wanted, Done<WriteResult> done) {
  std::uint64_t size = 0;
  for (const Buffer& piece : data) size += piece.size();
  write_by(
      object, offset, size,
      [this, object, offset, wanted, data = std::move(data)](Done<WriteResult> then) mutable {
        beneath_.write(object, offset, std::move(data), wanted, std::move(then));
      },
      std::move(done));
}

void SummedStore::write_piped(const layout::ObjectId& object, std::uint64_t offset, PipedBytes data,
                              Stability wanted, Done<WriteResult> done) {
  const std::uint64_t size = data.size();
  write_by(
      object, offset, size,
      [this, object, offset, wanted, data = std::move(data)](Done<WriteResult> then) mutable {
        beneath_.write_piped(object, offset, std::move(data), wanted, std::move(then));
      },
      std::move(done));
}

Task<Result<>> SummedStore::prepare(Object object, std::uint64_t offset, std::uint64_t size,
                                    SumTable::Blocks blocks) {
  const SumTable::Turn held = co_await turn(object);
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
  table_.begin(object, blocks, now_.load());
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
    auto kept = co_await read_kept(object, first, first + kSumRegionBlocks);
    if (!kept && !(kept.error() == Errc::kIo)) co_return pass(kept);
    SumTable::Region region{.index = index, .sums = {}, .touched = {}};
    region.changed_at = now_.load();
    if (kept) {
      region.sums = std::move(*kept);
      while (!region.sums.empty() && region.sums.back() == kUnknownSum) region.sums.pop_back();
      region.cleared = region.sums.empty() && !unsure_.load();
    }
    table_.add(object, std::move(region));
  }
  if (!clear || table_.is_cleared(object, index)) co_return Result<>{};
  auto cleared = co_await call<Result<>>([&](auto done) {
    beneath_.punch(sums_of(object), index * kKeptRegion, kKeptRegion, std::move(done));
  });
  if (cleared) {
    table_.set_cleared(object, index);
  } else {
    unsure_.store(true);
  }
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
  const SumTable::Turn held = co_await turn(object);
  std::uint64_t first = begin / kParityBlock;
  std::uint64_t last = end == kToTheEnd ? kToTheEnd : blocks_to(end);
  std::vector<std::uint64_t> parts;
  if (begin % kParityBlock != 0) {
    auto good = co_await is_good(object, first);
    if (!good) co_return pass(good);
    if (*good) parts.push_back(first);
    if (!*good) ++first;
  }
  if (end != kToTheEnd && end % kParityBlock != 0 && last > first) {
    auto good = co_await is_good(object, last - 1);
    if (!good) co_return pass(good);
    if (*good) parts.push_back(last - 1);
    if (!*good) --last;
  }
  if (first < last) {
    auto unknown = co_await make_unknown(object, first, last);
    if (!unknown) unsure_.store(true);
    if (!unknown) co_return pass(unknown);
    table_.forget(object, first, last);
  }
  for (const std::uint64_t block : parts) table_.adopt(object, block, block + 1, now_.load());
  co_return co_await call<Result<T>>([&](auto done) { go(std::move(done)); });
}

Task<Result<>> SummedStore::make_unknown(Object object, std::uint64_t first, std::uint64_t end) {
  const Object sums = sums_of(object);
  if (end != kToTheEnd) {
    co_return co_await call<Result<>>([&](auto done) {
      beneath_.punch(sums, first * kSumBytes, (end - first) * kSumBytes, std::move(done));
    });
  }
  auto found =
      co_await call<Result<ObjectStat>>([&](auto done) { beneath_.stat(sums, std::move(done)); });
  if (!found && found.error() == Errc::kNotFound) co_return Result<>{};
  if (!found) co_return pass(found);
  if (found->size <= first * kSumBytes) co_return Result<>{};
  auto cut = co_await call<Result<ObjectStat>>(
      [&](auto done) { beneath_.truncate(sums, first * kSumBytes, std::move(done)); });
  if (!cut) co_return pass(cut);
  co_return Result<>{};
}

void SummedStore::truncate(const layout::ObjectId& object, std::uint64_t size,
                           Done<ObjectStat> done) {
  if (size > kMost) return beneath_.truncate(object, size, std::move(done));
  spawn(cut<ObjectStat>(object, size, kToTheEnd,
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
  const SumTable::Turn held = co_await turn(object);
  const Object sums = sums_of(object);
  auto found =
      co_await call<Result<ObjectStat>>([&](auto done) { beneath_.stat(sums, std::move(done)); });
  if (found || !(found.error() == Errc::kNotFound)) {
    auto removed =
        co_await call<Result<>>([&](auto done) { beneath_.remove(sums, std::move(done)); });
    if (!removed) unsure_.store(true);
    if (!removed) co_return removed;
    if (found) of_sums_.fetch_sub(1);
  }
  table_.forget(object, 0, kToTheEnd);
  co_return co_await call<Result<>>([&](auto done) { beneath_.remove(object, std::move(done)); });
}

void SummedStore::remove(const layout::ObjectId& object, Done<void> done) {
  spawn(remove_both(object), std::move(done));
}

// --- Sealing -------------------------------------------------------------------------------------

void SummedStore::start(IoRing& ring) {
  ticker_.start(ring, kPoll, [this] { poll(); });
}

void SummedStore::stop() { ticker_.stop(); }

void SummedStore::poll() {
  now_.fetch_add(1);
  if (sealing_.exchange(true)) return;
  spawn(seal_due(), [this](bool /*over*/) { sealing_.store(false); });
}

Task<bool> SummedStore::seal_due() {
  const std::uint64_t now = now_.load();
  const auto idle = static_cast<std::uint64_t>(options_.idle.count());
  const auto places = table_.due(now > idle ? now - idle : 0, kSealsInAPoll);
  std::size_t next = 0;
  Join sealers;
  for (unsigned i = 0; i < kSealers; ++i) {
    sealers.started();
    spawn(seal_each(places, next), [&](bool /*over*/) { sealers.ended(); });
  }
  co_await sealers;
  co_return true;
}

Task<bool> SummedStore::seal_each(std::span<const SumTable::Place> places, std::size_t& next) {
  while (next < places.size() && !ticker_.stopped()) {
    auto due = table_.look_at(places[next++]);
    // What fails is as it was, and due again.
    if (due) static_cast<void>(co_await seal(std::move(*due)));
  }
  co_return true;
}

// The checksums of what was touched, as it is now, among those that were kept.
Task<Result<>> SummedStore::sum_touched(SumTable::Due& due) {
  // What a failed write-back has lost is still in the page cache, for clean (file_store_read.cc).
  const bool lost = beneath_.verifier() != verifier_;
  const std::uint64_t base = due.index * kSumRegionBlocks;
  const Payload nothing;
  std::vector<std::byte> copied;
  due.sums.resize(kSumRegionBlocks, kUnknownSum);
  for (std::uint64_t at = 0; at < kSumRegionBlocks; ++at) {
    if (!due.touched[at]) continue;
    std::uint64_t end = at;
    while (end < kSumRegionBlocks && end < at + kAtOnce && due.touched[end]) ++end;
    const std::uint64_t from = (base + at) * kParityBlock;
    const auto count = static_cast<std::uint32_t>((end - at) * kParityBlock);
    auto room = pool_.allocate(count);
    if (!room) co_return pass(room);
    auto read = co_await call<Result<ReadResult>>([&](auto done) {
      if (lost) return beneath_.read_uncached(due.object, from, count, std::move(done));
      beneath_.read_into(due.object, from, count, std::move(*room), std::move(done));
    });
    if (!read && !(read.error() == Errc::kNotFound)) co_return pass(read);
    const Payload& payload = read ? std::as_const(read->payload) : nothing;
    auto found = bytes_of(payload, copied);
    if (!found) co_return pass(found);
    const std::span<const std::byte> bytes = *found;
    for (const std::uint64_t first = at; at < end; ++at) {
      const std::size_t in = static_cast<std::size_t>(at - first) * kParityBlock;
      due.sums[at] = kUnknownSum;  // behind the object's end
      if (in >= bytes.size()) continue;
      const auto block = bytes.subspan(in, std::min(kParityBlock, bytes.size() - in));
      due.sums[at] = kept_sum(block, due.object, base + at);
    }
    --at;
  }
  while (!due.sums.empty() && due.sums.back() == kUnknownSum) due.sums.pop_back();
  co_return Result<>{};
}

// With the turn.
Task<Result<>> SummedStore::write_sums(const SumTable::Due& due) {
  if (due.sums.empty()) co_return Result<>{};
  auto buffer = pool_.allocate(due.sums.size() * kSumBytes);
  if (!buffer) co_return pass(buffer);
  for (std::size_t i = 0; i < due.sums.size(); ++i) {
    put_sum(buffer->span().subspan(i * kSumBytes, kSumBytes), due.sums[i]);
  }
  std::vector<Buffer> data;
  data.push_back(std::move(*buffer));
  const Object sums = sums_of(due.object);
  auto found =
      co_await call<Result<ObjectStat>>([&](auto done) { beneath_.stat(sums, std::move(done)); });
  auto written = co_await call<Result<WriteResult>>([&](auto done) {
    beneath_.write(sums, due.index * kKeptRegion, std::move(data), Stability::kFileSync,
                   std::move(done));
  });
  if (!found && found.error() == Errc::kNotFound) of_sums_.fetch_add(1);
  if (!written) co_return pass(written);
  view_.sealed_blocks.fetch_add(due.touched.count());
  co_return Result<>{};
}

Task<Result<>> SummedStore::seal(SumTable::Due due) {
  auto stable = co_await call<Result<WriteVerifier>>(
      [&](auto done) { beneath_.commit(due.object, std::move(done)); });
  if (!stable) co_return pass(stable);
  if (auto summed = co_await sum_touched(due); !summed) co_return summed;
  const SumTable::Turn held = co_await turn(due.object);
  if (!table_.unchanged(due)) co_return Result<>{};
  // Whatever becomes of them: each is of bytes that are stable, or unknown as before.
  auto written = co_await write_sums(due);
  static_cast<void>(table_.erase_unchanged(due));
  co_return written;
}

}  // namespace weft::ds
