// Reads what the metadata server expects clients to read soon, so that it is in memory when they
// come: in the kernel's page cache, or whatever cache the store has. Where a disk has to seek, it
// finds several things on its way instead of one for each client that waits.
//
// It is for guesses: at most kAtOnce reads are under way and kWaiting wait. When more comes, what
// waited longest is forgotten, since whoever was to read it has been here by now. Errors are left
// to those who read.
//
// Threading: any thread. Ownership: store and rings outlive it, and it is destroyed when no ring
// runs any more. After stop() nothing begins; what is under way ends as any operation of the store.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "dataserver/ring/io_ring.h"
#include "dataserver/store/store.h"
#include "rpc/base/mutex.h"
#include "rpc/control/prefetch.h"

namespace weft::ds {

class ReadAhead {
 public:
  static constexpr std::size_t kAtOnce = 8;
  static constexpr std::size_t kWaiting = 512;

  struct Counts {
    std::uint64_t reads = 0;    // begun
    std::uint64_t bytes = 0;    // that they found
    std::uint64_t dropped = 0;  // forgotten, since more came
  };

  ReadAhead(Store& store, std::vector<IoRing*> rings) : store_(store), rings_(std::move(rings)) {}

  void expect(const std::vector<rpc::control::Range>& ranges);
  void stop();
  [[nodiscard]] Counts counts() const;

 private:
  void begin_more() WEFT_REQUIRES(mutex_);
  void read(const rpc::control::Range& range);
  void ended(const Result<ReadResult>& result);

  Store& store_;
  const std::vector<IoRing*> rings_;
  mutable Mutex mutex_;
  std::deque<rpc::control::Range> waiting_ WEFT_GUARDED_BY(mutex_);
  std::size_t under_way_ WEFT_GUARDED_BY(mutex_) = 0;
  std::size_t next_ring_ WEFT_GUARDED_BY(mutex_) = 0;
  bool stopped_ WEFT_GUARDED_BY(mutex_) = false;
  Counts counts_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft::ds
