// A disk that is slower than the one there is, for benchmarks: one arm, a queue, and a cache of a
// size that is set. It says when an operation is done; EmulatedStore (below) keeps answers back
// until then.
//
//   time of an operation   0 if it goes on where the last one ended, else seek(distance) + a part
//                          of a turn, evenly drawn; plus bytes / rate
//   seek                   layout::seek_time(), the planner's curve (layout/performance.h)
//
// Operations are done one after the other as they come. Bytes have places on the disk in units of
// 64 KiB, given out one after the other when a unit is first touched, from the beginning again
// when all are given out: so what is written in a row is in a row.
//
// The cache holds pages of 4 KiB, the most recently used. What it holds is read in no time, what
// is missing between the first and the last missing page of a read in one operation. Unstable
// writes stay in it until a commit, or until an eighth of it is unwritten: then all is written in
// order of place, adjoining pages in one operation. They are answered at once while no more than
// half the cache is unwritten or being written, else when that is so. Without a cache every read
// and write is an operation. Cutting, removing and asking for sizes take no time.
//
// Threading: an EmulatedDisk is for any thread, its mutex held for moments; an EmulatedStore as the
// store beneath it.
//
// Memory: places are bounded by what the store beneath holds, pages by the cache.
//
// Invariants:
//  1. The same operations in the same order at the same times take the same times, for one seed.
//  2. What an operation is to do is done by the store beneath, first; only its answer waits.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <set>
#include <unordered_map>

#include "dataserver/store/store_over.h"
#include "rpc/base/clock.h"
#include "rpc/base/mutex.h"

namespace weft::ds {

struct EmulatedDiskOptions {
  std::uint64_t rate = 0;      // bytes a second; 0: no disk is emulated
  Nanoseconds seek{0};         // mean, between places drawn evenly
  Nanoseconds rotation{0};     // mean: half a turn
  std::uint64_t capacity = 0;  // bytes over which seeks are counted
  std::uint64_t memory = 0;    // of the cache, bytes
  std::uint64_t seed = 1;
  [[nodiscard]] bool on() const { return rate > 0; }
};

class EmulatedDisk {
 public:
  // Precondition: options.on().
  EmulatedDisk(const EmulatedDiskOptions& options, Clock& clock);

  // When each is done.
  [[nodiscard]] TimePoint read(const layout::ObjectId& object, std::uint64_t offset,
                               std::uint64_t size);
  [[nodiscard]] TimePoint write(const layout::ObjectId& object, std::uint64_t offset,
                                std::uint64_t size, Stability wanted);
  [[nodiscard]] TimePoint commit(const layout::ObjectId& object);
  void remove(const layout::ObjectId& object);

  struct Counts {
    std::uint64_t operations = 0;  // of the arm
    std::uint64_t bytes = 0;
    std::uint64_t pages_found = 0;  // of reads, in the cache
    std::uint64_t pages_missed = 0;
    Nanoseconds busy{0};
  };
  [[nodiscard]] Counts counts() const;

 private:
  using Page = std::uint64_t;  // 4 KiB of the disk
  using Pages = std::set<Page>;

  [[nodiscard]] std::vector<Page> pages_of(const layout::ObjectId& object, std::uint64_t offset,
                                           std::uint64_t size) WEFT_REQUIRES(mutex_);
  [[nodiscard]] TimePoint operate(Page first, std::uint64_t bytes) WEFT_REQUIRES(mutex_);
  [[nodiscard]] TimePoint operate_on(const std::vector<Page>& pages, std::uint64_t bytes)
      WEFT_REQUIRES(mutex_);
  [[nodiscard]] TimePoint flush(const Pages& pages) WEFT_REQUIRES(mutex_);
  void flush_all() WEFT_REQUIRES(mutex_);
  void forget_flushed() WEFT_REQUIRES(mutex_);
  [[nodiscard]] TimePoint room_at() WEFT_REQUIRES(mutex_);
  void keep(Page page) WEFT_REQUIRES(mutex_);

  const EmulatedDiskOptions options_;
  const std::uint64_t units_;  // places there are
  const std::size_t room_;     // of the cache, pages
  Clock& clock_;

  mutable Mutex mutex_;
  SeededRandom random_ WEFT_GUARDED_BY(mutex_);
  TimePoint free_ WEFT_GUARDED_BY(mutex_){};      // when what came so far is done
  std::uint64_t at_ WEFT_GUARDED_BY(mutex_) = 0;  // where the arm is, bytes
  std::uint64_t next_unit_ WEFT_GUARDED_BY(mutex_) = 0;
  std::unordered_map<layout::ObjectId, std::unordered_map<std::uint64_t, std::uint64_t>> places_
      WEFT_GUARDED_BY(mutex_);
  std::list<Page> recent_ WEFT_GUARDED_BY(mutex_);  // the most recently used first; written
  std::unordered_map<Page, std::list<Page>::iterator> cached_ WEFT_GUARDED_BY(mutex_);
  std::unordered_map<layout::ObjectId, Pages> unwritten_ WEFT_GUARDED_BY(mutex_);
  std::size_t unwritten_pages_ WEFT_GUARDED_BY(mutex_) = 0;
  std::deque<std::pair<TimePoint, std::size_t>> flushing_
      WEFT_GUARDED_BY(mutex_);  // when done, pages; the earliest first
  std::size_t flushing_pages_ WEFT_GUARDED_BY(mutex_) = 0;
  Counts counts_ WEFT_GUARDED_BY(mutex_);
};

// A store whose answers come when the disk has done what they are about. Many may share one disk.
// What is about names and space is as fast as it is.
class EmulatedStore final : public StoreOver {
 public:
  // Both outlive it.
  EmulatedStore(Store& beneath, EmulatedDisk& disk, Clock& clock)
      : StoreOver(beneath), disk_(disk), clock_(clock) {}

  using Store::read;
  using Store::write;
  void read(StoreRead what, Done<ReadResult> done) override;
  void write(StoreWrite what, Done<WriteResult> done) override;
  void commit(const layout::ObjectId& object, Done<WriteVerifier> done) override;
  void remove(const layout::ObjectId& object, Done<void> done) override;

 private:
  template <class T>
  void answer_at(TimePoint when, Result<T> result, Done<T> done);

  EmulatedDisk& disk_;
  Clock& clock_;
};

}  // namespace weft::ds
