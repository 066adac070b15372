// Reports of stable writes from the data servers, committed together.
//
// A report that changes a file's attributes must be answered only when that is on disk. While one
// batch is being committed the next gathers, so that many writers share one sync. A report that
// changes nothing that anybody was told is answered at once.
//
// Reports count in the order in which they came, with the fences that data servers answer between
// them: what a client that is fenced has written is reported before, and a file is not cut while a
// report of it waits.
//
// Threading: add() from any thread; FileSizes::grow is called by one worker at a time.
#pragma once

#include <memory>
#include <vector>

#include "ganesha-fsal/cluster/cluster.h"
#include "ganesha-fsal/cluster/work_queue.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

class SizeReports {
 public:
  static constexpr std::size_t kBatch = 256;

  // Both outlive this, and `workers` is stopped before this goes.
  SizeReports(FileSizes& files, WorkQueue& workers, std::size_t max_waiting)
      : files_(files), workers_(workers), max_waiting_(max_waiting) {}

  // kBusy when too many wait.
  void add(control::ReportSize report, Done<void> done);

 private:
  struct Waiting {
    control::ReportSize report;
    std::shared_ptr<void> uncut;  // as long as it waits
    Done<void> done;
  };

  void drain();

  FileSizes& files_;
  WorkQueue& workers_;
  const std::size_t max_waiting_;
  Mutex mutex_;
  std::vector<Waiting> waiting_ WEFT_GUARDED_BY(mutex_);
  bool draining_ WEFT_GUARDED_BY(mutex_) = false;  // a worker is at it, or will be
};

}  // namespace weft::mds
