// Seals the blocks of a SummedStore (summed_store.h): writes the checksums of regions that nobody
// has written into for a while.
//
// Each is committed beneath first, and what was touched of it is read. The new checksums go to the
// disk with the object's turn, and only if nobody has written there since the region was looked at;
// if somebody has, or something fails, it is due again. So each checksum that comes to the disk is
// of bytes that are stable.
//
// Threading: start() and stop() from one thread, stop() before the ring's ends, then wait for
// idle(). poll() from one that has a ring. now() and idle() from any.
//
// Ownership: all of Parts outlives it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>

#include "dataserver/ring/ticker.h"
#include "dataserver/store/store.h"
#include "dataserver/sums/kept_sums.h"
#include "dataserver/sums/sum_table.h"
#include "dataserver/sums/sum_view.h"
#include "rpc/base/task.h"

namespace weft::ds {

class Sealer {
 public:
  struct Parts {
    Store& beneath;
    BufferPool& pool;
    SumTable& table;
    KeptSums& kept;
    SumView& view;
    std::chrono::seconds idle;  // for so long nobody has written into a region that is sealed
  };
  explicit Sealer(const Parts& parts);

  // Once a second on this ring's thread.
  void start(IoRing& ring);
  void stop() { ticker_.stop(); }
  [[nodiscard]] bool idle() const { return !ticker_.running() && !sealing_.load(); }
  // A second has passed.
  void poll();
  // In polls; never 0.
  [[nodiscard]] std::uint64_t now() const { return now_.load(); }

 private:
  [[nodiscard]] Task<bool> seal_due();
  [[nodiscard]] Task<bool> seal_each(std::span<const SumTable::Place> places, std::size_t& next);
  [[nodiscard]] Task<Result<>> seal(SumTable::Due due);
  [[nodiscard]] Task<Result<>> sum_touched(SumTable::Due& due);

  const Parts parts_;
  const WriteVerifier verifier_;  // of the store beneath, before it lost anything
  std::atomic<std::uint64_t> now_{1};
  Ticker ticker_;
  std::atomic<bool> sealing_{false};
};

}  // namespace weft::ds
