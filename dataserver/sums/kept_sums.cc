#include "dataserver/sums/kept_sums.h"

#include <algorithm>

#include "dataserver/parity/blocks.h"
#include "dataserver/sums/kept_sum.h"

namespace weft::ds {

namespace {

constexpr std::uint32_t kPage = 1024;
constexpr std::uint64_t kKeptRegion = kSumRegionBlocks * kSumBytes;

}  // namespace

// --- Which there are -----------------------------------------------------------------------------

// Removes those of a page at once, so that a store syncs each of its folders once for all of them.
Task<Result<std::uint64_t>> KeptSums::each(Store& beneath, bool remove) {
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

Task<Result<>> KeptSums::open() {
  auto count = co_await each(beneath_, false);
  if (!count) co_return pass(count);
  objects_.store(*count);
  co_return Result<>{};
}

Task<Result<>> KeptSums::remove_all(Store& beneath) {
  auto count = co_await each(beneath, true);
  if (!count) co_return pass(count);
  co_return Result<>{};
}

// --- Those of an object --------------------------------------------------------------------------

Task<Result<KeptSums::Sums>> KeptSums::read(Object object, std::uint64_t first, std::uint64_t end) {
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

Result<> KeptSums::noted(Result<> done) {
  if (!done) unsure_.store(true);
  return done;
}

Task<Result<>> KeptSums::clear(Object object, std::uint64_t region) {
  return make_unknown(object, region * kSumRegionBlocks, (region + 1) * kSumRegionBlocks);
}

Task<Result<>> KeptSums::make_unknown(Object object, std::uint64_t first, std::uint64_t end) {
  const Object sums = sums_of(object);
  if (end == kToTheEnd) co_return noted(co_await cut(sums, first * kSumBytes));
  co_return noted(co_await call<Result<>>([&](auto done) {
    beneath_.punch(sums, first * kSumBytes, (end - first) * kSumBytes, std::move(done));
  }));
}

Task<Result<>> KeptSums::cut(Object sums, std::uint64_t size) {
  auto found =
      co_await call<Result<ObjectStat>>([&](auto done) { beneath_.stat(sums, std::move(done)); });
  if (!found && found.error() == Errc::kNotFound) co_return Result<>{};
  if (!found) co_return pass(found);
  if (found->size <= size) co_return Result<>{};
  auto done = co_await call<Result<ObjectStat>>(
      [&](auto then) { beneath_.truncate(sums, size, std::move(then)); });
  if (!done) co_return pass(done);
  co_return Result<>{};
}

Task<Result<>> KeptSums::write(Object object, std::uint64_t region, const Sums& sums) {
  if (sums.empty()) co_return Result<>{};
  auto buffer = pool_.allocate(sums.size() * kSumBytes);
  if (!buffer) co_return pass(buffer);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    put_sum(buffer->span().subspan(i * kSumBytes, kSumBytes), sums[i]);
  }
  std::vector<Buffer> data;
  data.push_back(std::move(*buffer));
  const Object beside = sums_of(object);
  auto found =
      co_await call<Result<ObjectStat>>([&](auto done) { beneath_.stat(beside, std::move(done)); });
  auto written = co_await call<Result<WriteResult>>([&](auto done) {
    beneath_.write(beside, region * kKeptRegion, std::move(data), Stability::kFileSync,
                   std::move(done));
  });
  if (!found && found.error() == Errc::kNotFound) objects_.fetch_add(1);
  if (!written) co_return pass(written);
  co_return Result<>{};
}

Task<Result<>> KeptSums::remove(Object object) {
  const Object sums = sums_of(object);
  auto found =
      co_await call<Result<ObjectStat>>([&](auto done) { beneath_.stat(sums, std::move(done)); });
  if (!found && found.error() == Errc::kNotFound) co_return Result<>{};
  auto removed =
      noted(co_await call<Result<>>([&](auto done) { beneath_.remove(sums, std::move(done)); }));
  if (removed && found) objects_.fetch_sub(1);
  co_return removed;
}

}  // namespace weft::ds
