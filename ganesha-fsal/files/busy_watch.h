// Whether the metadata store has more to write than its disk takes. While it has, new files are not
// kept in it (inline_files.cc): their bytes go to data servers.
//
// Busy by looks, one a second. A look is bad when RocksDB slows writes down or has stopped them,
// since compaction does not keep up, or when syncs of the log have taken 100 ms and more since the
// look before, on average; none that ended while there was something to sync counts as that. It is
// good when writes are let through and syncs took less than half of that. Three bad looks in a row
// begin it, ten good ones end it.
//
// Threading: look() on one thread, busy() on any.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "ganesha-fsal/meta/kv/kv.h"

namespace weft::mds {

class BusyWatch {
 public:
  static constexpr std::chrono::milliseconds kSlowSync{100};
  static constexpr unsigned kBadLooks = 3;
  static constexpr unsigned kGoodLooks = 10;

  void look(const StoreHealth& now);
  [[nodiscard]] bool busy() const { return busy_; }

 private:
  enum class Look : std::uint8_t { kGood, kBetween, kBad };
  [[nodiscard]] Look judge(const StoreHealth& now) const;

  std::atomic<bool> busy_{false};
  unsigned in_a_row_ = 0;  // looks that speak for the change
  // At the look before.
  std::uint64_t commits_ = 0;
  std::uint64_t syncs_ = 0;
  std::chrono::nanoseconds sync_time_{0};
};

}  // namespace weft::mds
