#include "dataserver/store/emulated_disk.h"

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <memory>

#include "dataserver/ring/io_ring.h"
#include "layout/performance.h"
#include "rpc/base/assert.h"

namespace weft::ds {

namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kUnit = 65536;
constexpr std::uint64_t kPagesInUnit = kUnit / kPage;
constexpr std::size_t kFlushPart = 8;  // of the cache, unwritten, before it is written

Nanoseconds seconds(double value) {
  return std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double>(value));
}

}  // namespace

EmulatedDisk::EmulatedDisk(const EmulatedDiskOptions& options, Clock& clock)
    : options_(options),
      units_(std::max<std::uint64_t>(1, options.capacity / kUnit)),
      room_(static_cast<std::size_t>(options.memory / kPage)),
      clock_(clock),
      random_(options.seed) {
  WEFT_ASSERT(options.on());
}

// The pages of a range of an object, in its order.
std::vector<EmulatedDisk::Page> EmulatedDisk::pages_of(const layout::ObjectId& object,
                                                       std::uint64_t offset, std::uint64_t size) {
  std::vector<Page> pages;
  auto& places = places_[object];
  for (std::uint64_t page = offset / kPage; page * kPage < offset + size; ++page) {
    const auto [found, fresh] = places.try_emplace(page / kPagesInUnit, next_unit_);
    if (fresh) next_unit_ = (next_unit_ + 1) % units_;
    pages.push_back(found->second * kPagesInUnit + page % kPagesInUnit);
  }
  return pages;
}

TimePoint EmulatedDisk::operate(Page first, std::uint64_t bytes) {
  const std::uint64_t place = first * kPage;
  Nanoseconds takes = seconds(static_cast<double>(bytes) / static_cast<double>(options_.rate));
  if (place != at_) {
    const std::uint64_t way = place > at_ ? place - at_ : at_ - place;
    const layout::NodeModel model{
        .seek = std::chrono::duration<double>(options_.seek).count(),
        .rotation = std::chrono::duration<double>(options_.rotation).count()};
    const double part = static_cast<double>(way) / static_cast<double>(units_ * kUnit);
    takes += seconds(layout::seek_time(model, std::min(1.0, part)));
    const auto turn = static_cast<std::uint64_t>(2 * options_.rotation.count());
    takes += Nanoseconds(random_.below(turn + 1));
  }
  at_ = place + (bytes + kPage - 1) / kPage * kPage;
  free_ = std::max(free_, clock_.now()) + takes;
  counts_.operations += 1;
  counts_.bytes += bytes;
  counts_.busy += takes;
  return free_;
}

// `bytes` of these pages, in as few operations as their places allow.
TimePoint EmulatedDisk::operate_on(const std::vector<Page>& pages, std::uint64_t bytes) {
  TimePoint done = clock_.now();
  for (std::size_t begin = 0; begin < pages.size();) {
    std::size_t end = begin + 1;
    while (end < pages.size() && pages[end] == pages[end - 1] + 1) ++end;
    const std::uint64_t part = std::min(bytes, (end - begin) * kPage);
    done = operate(pages[begin], part);
    bytes -= part;
    begin = end;
  }
  return done;
}

// Puts a page first, and lets go of the least recently used.
void EmulatedDisk::keep(Page page) {
  if (room_ == 0) return;
  const auto found = cached_.find(page);
  if (found != cached_.end()) {
    recent_.splice(recent_.begin(), recent_, found->second);
    return;
  }
  recent_.push_front(page);
  cached_.emplace(page, recent_.begin());
  if (recent_.size() <= room_) return;
  cached_.erase(recent_.back());
  recent_.pop_back();
}

TimePoint EmulatedDisk::read(const layout::ObjectId& object, std::uint64_t offset,
                             std::uint64_t size) {
  const MutexLock lock(mutex_);
  if (size == 0) return clock_.now();
  const std::vector<Page> pages = pages_of(object, offset, size);
  if (room_ == 0) return operate_on(pages, size);
  const auto unwritten = unwritten_.find(object);
  std::size_t first = pages.size();
  std::size_t last = 0;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const bool found = cached_.contains(pages[i]) ||
                       (unwritten != unwritten_.end() && unwritten->second.contains(pages[i]));
    ++(found ? counts_.pages_found : counts_.pages_missed);
    if (found) continue;
    first = std::min(first, i);
    last = i + 1;
  }
  for (const Page page : pages) keep(page);
  if (first >= last) return clock_.now();
  const std::vector<Page> missing(pages.begin() + static_cast<std::ptrdiff_t>(first),
                                  pages.begin() + static_cast<std::ptrdiff_t>(last));
  return operate_on(missing, missing.size() * kPage);
}

TimePoint EmulatedDisk::write(const layout::ObjectId& object, std::uint64_t offset,
                              std::uint64_t size, Stability wanted) {
  const MutexLock lock(mutex_);
  if (size == 0) return clock_.now();
  const std::vector<Page> pages = pages_of(object, offset, size);
  if (room_ == 0) return operate_on(pages, size);
  Pages& unwritten = unwritten_[object];
  for (const Page page : pages) unwritten_pages_ += unwritten.insert(page).second ? 1 : 0;
  if (wanted != Stability::kUnstable) {
    const Pages stable = std::move(unwritten);
    unwritten_.erase(object);
    return flush(stable);
  }
  if (unwritten_pages_ > room_ / kFlushPart) flush_all();
  return room_at();
}

void EmulatedDisk::forget_flushed() {
  while (!flushing_.empty() && flushing_.front().first <= clock_.now()) {
    flushing_pages_ -= flushing_.front().second;
    flushing_.pop_front();
  }
}

// When no more than half the cache is of bytes that are not on the disk.
TimePoint EmulatedDisk::room_at() {
  forget_flushed();
  std::size_t dirty = unwritten_pages_ + flushing_pages_;
  TimePoint when = clock_.now();
  for (const auto& [done, pages] : flushing_) {
    if (dirty <= room_ / 2) break;
    dirty -= pages;
    when = done;
  }
  return when;
}

TimePoint EmulatedDisk::flush(const Pages& pages) {
  forget_flushed();
  unwritten_pages_ -= pages.size();
  for (const Page page : pages) keep(page);
  const TimePoint done = operate_on({pages.begin(), pages.end()}, pages.size() * kPage);
  flushing_pages_ += pages.size();
  flushing_.emplace_back(done, pages.size());
  return done;
}

void EmulatedDisk::flush_all() {
  Pages all;
  for (auto& [object, pages] : unwritten_) all.merge(pages);
  unwritten_.clear();
  unwritten_pages_ = all.size();  // places are shared once the disk is full
  static_cast<void>(flush(all));
}

// What was written before may be on its way still.
TimePoint EmulatedDisk::commit(const layout::ObjectId& object) {
  const MutexLock lock(mutex_);
  if (room_ == 0) return clock_.now();
  const auto found = unwritten_.find(object);
  if (found != unwritten_.end()) {
    const Pages pages = std::move(found->second);
    unwritten_.erase(found);
    return flush(pages);
  }
  return std::max(free_, clock_.now());
}

void EmulatedDisk::remove(const layout::ObjectId& object) {
  const MutexLock lock(mutex_);
  places_.erase(object);
  const auto found = unwritten_.find(object);
  if (found == unwritten_.end()) return;
  unwritten_pages_ -= found->second.size();
  unwritten_.erase(found);
}

EmulatedDisk::Counts EmulatedDisk::counts() const {
  const MutexLock lock(mutex_);
  return counts_;
}

// --- The store -----------------------------------------------------------------------------------

template <class T>
void EmulatedStore::answer_at(TimePoint when, Result<T> result, Done<T> done) {
  if (when <= clock_.now()) return done(std::move(result));
  auto timer = std::make_shared<boost::asio::steady_timer>(IoRing::current()->context(),
                                                           when - clock_.now());
  timer->async_wait([timer, result = std::move(result), done = std::move(done)](
                        const boost::system::error_code&) mutable { done(std::move(result)); });
}

void EmulatedStore::read(StoreRead what, Done<ReadResult> done) {
  auto late = [this, object = what.object, offset = what.offset,
               done = std::move(done)](Result<ReadResult> result) mutable {
    if (!result) return done(std::move(result));
    const TimePoint when = disk_.read(object, offset, result->payload.size());
    answer_at<ReadResult>(when, std::move(result), std::move(done));
  };
  beneath_.read(std::move(what), std::move(late));
}

void EmulatedStore::write(StoreWrite what, Done<WriteResult> done) {
  auto late = [this, object = what.object, offset = what.offset, wanted = what.wanted,
               done = std::move(done)](Result<WriteResult> result) mutable {
    if (!result) return done(std::move(result));
    const TimePoint when = disk_.write(object, offset, result->bytes, wanted);
    answer_at<WriteResult>(when, std::move(result), std::move(done));
  };
  beneath_.write(std::move(what), std::move(late));
}

void EmulatedStore::commit(const layout::ObjectId& object, Done<WriteVerifier> done) {
  beneath_.commit(
      object, [this, object, done = std::move(done)](Result<WriteVerifier> result) mutable {
        if (!result) return done(std::move(result));
        answer_at<WriteVerifier>(disk_.commit(object), std::move(result), std::move(done));
      });
}

void EmulatedStore::remove(const layout::ObjectId& object, Done<void> done) {
  disk_.remove(object);
  beneath_.remove(object, std::move(done));
}

}  // namespace weft::ds
