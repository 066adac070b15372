#include "dataserver/sums/sealer.h"

#include <algorithm>
#include <utility>

#include "dataserver/sums/kept_sum.h"

namespace weft::ds {

namespace {

constexpr std::uint64_t kAtOnce = 256;  // blocks read for a seal
constexpr std::size_t kSealsInAPoll = 1024;
constexpr unsigned kSealers = 8;  // at once
constexpr std::chrono::seconds kPoll{1};

}  // namespace

Sealer::Sealer(const Parts& parts) : parts_(parts), verifier_(parts.beneath.verifier()) {}

void Sealer::start(IoRing& ring) {
  ticker_.start(ring, kPoll, [this] { poll(); });
}

void Sealer::poll() {
  now_.fetch_add(1);
  if (sealing_.exchange(true)) return;
  spawn(seal_due(), [this](bool /*over*/) { sealing_.store(false); });
}

Task<bool> Sealer::seal_due() {
  const std::uint64_t now = now_.load();
  const auto idle = static_cast<std::uint64_t>(parts_.idle.count());
  const auto places = parts_.table.due(now > idle ? now - idle : 0, kSealsInAPoll);
  std::size_t next = 0;
  Join sealers;
  for (unsigned i = 0; i < kSealers; ++i) {
    sealers.started();
    spawn(seal_each(places, next), [&](bool /*over*/) { sealers.ended(); });
  }
  co_await sealers;
  co_return true;
}

Task<bool> Sealer::seal_each(std::span<const SumTable::Place> places, std::size_t& next) {
  while (next < places.size() && !ticker_.stopped()) {
    auto due = parts_.table.look_at(places[next++]);
    // What fails is as it was, and due again.
    if (due) static_cast<void>(co_await seal(std::move(*due)));
  }
  co_return true;
}

// The checksums of what was touched, as it is now, among those that were kept.
Task<Result<>> Sealer::sum_touched(SumTable::Due& due) {
  // What a failed write-back has lost is still in the page cache, for clean (file_store_read.cc).
  const bool lost = parts_.beneath.verifier() != verifier_;
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
    auto room = parts_.pool.allocate(count);
    if (!room) co_return pass(room);
    auto read = co_await call<Result<ReadResult>>([&](auto done) {
      parts_.beneath.read({.object = due.object,
                           .offset = from,
                           .count = count,
                           .room = std::move(*room),
                           .uncached = lost},
                          std::move(done));
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

Task<Result<>> Sealer::seal(SumTable::Due due) {
  auto stable = co_await call<Result<WriteVerifier>>(
      [&](auto done) { parts_.beneath.commit(due.object, std::move(done)); });
  if (!stable) co_return pass(stable);
  if (auto summed = co_await sum_touched(due); !summed) co_return summed;
  const SumTable::Turn held = co_await parts_.table.turn(due.object);
  if (!parts_.table.unchanged(due)) co_return Result<>{};
  // Whatever becomes of them: each is of bytes that are stable, or unknown as before.
  auto written = co_await parts_.kept.write(due.object, due.index, due.sums);
  if (written && !due.sums.empty()) parts_.view.sealed_blocks.fetch_add(due.touched.count());
  static_cast<void>(parts_.table.erase_unchanged(due));
  co_return written;
}

}  // namespace weft::ds
