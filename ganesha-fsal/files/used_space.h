// What storage files use: du(1) and the like want to see holes. Data servers of a large file are
// asked. A smaller one counts as full once it was written, and a small one always, so that listing
// many of them costs nothing.
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
#include "layout/policy.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

class UsedSpace {
 public:
  static constexpr std::uint64_t kLargeFile = std::uint64_t{64} << 20;
  static constexpr std::uint64_t kSmallFile = layout::kGreatestInline;  // up to here

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
  // The same without asking data servers: of a file that is not large.
  [[nodiscard]] std::uint64_t without_asking(const InodeAttributes& file) const;

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
