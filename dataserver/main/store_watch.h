// Whether a data server's store is there, as it tells the metadata server with each heartbeat.
//
// A target that does not answer, or a parity group that waits for its members, is waited for
// (kPatience), since a restart takes as long; what was known of its room goes on to be told. A
// folder whose disk takes no writes is told at once: the data server could not note a fence.
//
// Threading: look() on one thread. Ownership: what Parts refers to outlives it.
#pragma once

#include <functional>
#include <string>

#include "dataserver/store/disk_watch.h"
#include "dataserver/store/store.h"
#include "rpc/base/clock.h"

namespace weft::ds {

class StoreWatch {
 public:
  static constexpr std::chrono::seconds kPatience{10};

  struct Parts {
    std::function<Result<StoreStat>()> usage;  // an error: it is not there
    DiskWatch& folder;
    const Clock& clock;
  };
  explicit StoreWatch(Parts parts) : parts_(std::move(parts)) {}

  struct State {
    StoreStat usage;
    std::string trouble;  // empty: it is there
  };
  [[nodiscard]] State look();

 private:
  const Parts parts_;
  StoreStat last_;
  TimePoint good_{};  // when it was there last; or was first asked for
};

}  // namespace weft::ds
