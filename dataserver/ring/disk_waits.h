// What waits for the disk on behalf of one I/O thread, and since when.
//
// A disk that hangs reports no error: what was asked of it does not come back. So each operation
// is noted here from its begin to its end, which is cheap, and the one that has waited the longest
// tells whether the disk answers (process/stall_watch.h).
//
// Threading: a list for each thread; a Wait begins and ends on the same one.
#pragma once

#include <boost/intrusive/list.hpp>
#include <optional>

#include "rpc/base/clock.h"

namespace weft::ds {

class DiskWait : public boost::intrusive::list_base_hook<
                     boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
 public:
  explicit DiskWait(TimePoint since = system_clock().now());
  DiskWait(const DiskWait&) = delete;
  DiskWait& operator=(const DiskWait&) = delete;
  // Since when the oldest of this thread has waited.
  [[nodiscard]] static std::optional<TimePoint> oldest();

 private:
  const TimePoint since_;
};

}  // namespace weft::ds
