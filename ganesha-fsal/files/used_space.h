// What storage large files use, which their data servers are asked for: du(1) and the like want to
// see holes there. A smaller file counts as full.
//
// Threading: any thread that may block; of() waits for data servers, 200 ms at most.
// Ownership: what Parts refers to outlives it, and every question that is out.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <utility>

#include "ganesha-fsal/cluster/cluster.h"
#include "ganesha-fsal/files/file_table.h"
#include "ganesha-fsal/meta/ops/namespace.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

class UsedSpace {
 public:
  static constexpr std::uint64_t kLargeFile = std::uint64_t{64} << 20;

  struct Parts {
    FileTable& files;
    Namespace& names;
    Cluster& cluster;
    std::function<Clock::time_point()> now;
  };

  explicit UsedSpace(Parts parts) : parts_(std::move(parts)) {}
  UsedSpace(const UsedSpace&) = delete;
  UsedSpace& operator=(const UsedSpace&) = delete;

  struct Answer {
    std::uint64_t bytes = 0;  // of one copy
    bool now = false;         // and not as it was a moment ago, or full, which nobody has said
  };
  [[nodiscard]] Answer of(const InodeAttributes& file);

 private:
  struct Known {
    std::uint64_t bytes = 0;
    Clock::time_point at;
  };

  [[nodiscard]] std::optional<std::uint64_t> ask(FileId file) const;

  const Parts parts_;
  Mutex mutex_;
  std::unordered_map<FileId, Known> known_ WEFT_GUARDED_BY(mutex_);  // bounded
  Clock::time_point ask_at_ WEFT_GUARDED_BY(mutex_);                 // not before, after no answer
};

}  // namespace weft::mds
