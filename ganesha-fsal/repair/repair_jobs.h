// The jobs that data servers do for repair, as far as the metadata server sees them: numbers,
// progress, totals. What `weft ds list` and the metrics page show.
//
// Threading: any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string_view>
#include <vector>

#include "ganesha-fsal/meta/schema/types.h"
#include "rpc/base/mutex.h"
#include "rpc/control/messages.h"

namespace weft::mds {

namespace control = rpc::control;

enum class RepairKind : std::uint32_t {
  kResync = 0,   // of a copy that missed writes
  kCompare = 1,  // of copies that may differ since a writer died
  kScrub = 2,    // of copies that should not differ
};
// "resync", "compare", "scrub".
[[nodiscard]] std::string_view to_string(RepairKind kind);

struct RepairJob {
  std::uint64_t number = 0;
  RepairKind kind = RepairKind::kResync;
  FileId file = 0;
  std::uint32_t ds_id = 0;   // whose object is made equal
  std::uint32_t source = 0;  // to this one's
  std::uint64_t total_bytes = 0;
  std::uint64_t compared_bytes = 0;
  std::uint64_t copied_bytes = 0;
  std::uint64_t bytes_per_second = 0;  // compared, on average
  std::chrono::milliseconds age{0};
  std::chrono::milliseconds remaining{0};  // at that rate; 0: not known
};

// Since the process started.
struct RepairTotals {
  std::uint64_t resynced = 0;  // objects that are current again
  std::uint64_t compared = 0;  // objects of copies that were compared
  std::uint64_t failed = 0;    // jobs that are to be begun again
  std::uint64_t compared_bytes = 0;
  std::uint64_t differing_bytes = 0;
  std::uint64_t copied_bytes = 0;  // fetched by one data server from another
};

class RepairJobs {
 public:
  using Now = std::function<std::chrono::steady_clock::time_point()>;

  // Numbers begin above `first`, so that they are not those of an earlier run.
  RepairJobs(std::uint64_t first, Now now) : now_(std::move(now)), last_(first) {}

  [[nodiscard]] std::uint64_t begin(RepairKind kind, FileId file, std::uint32_t ds_id,
                                    std::uint32_t source);
  void progress(std::uint64_t number, const control::ResyncProgress& at);
  void end(std::uint64_t number, bool done);

  [[nodiscard]] std::vector<RepairJob> running() const;
  [[nodiscard]] RepairTotals totals() const;

 private:
  struct Running {
    RepairJob job;
    std::chrono::steady_clock::time_point since;
    control::ResyncProgress at;
  };

  const Now now_;
  mutable Mutex mutex_;
  std::uint64_t last_ WEFT_GUARDED_BY(mutex_);
  std::map<std::uint64_t, Running> running_ WEFT_GUARDED_BY(mutex_);
  RepairTotals totals_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft::mds
