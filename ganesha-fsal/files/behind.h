// Work on files that may have to wait for data servers, for operations that must not wait: those
// that hold Ganesha's lock on a file's state, behind which recalls wait. It is done by threads of
// this class and waited for only a little. Who does not see its end comes again, and then it is
// done, or is seen to go on.
//
// Threading: run() from any thread. stop(), or destruction, ends what has begun first.
//
// Invariants:
//  1. At most one work of a file is under way.
//  2. At most kMost are.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <unordered_map>

#include "ganesha-fsal/cluster/work_queue.h"
#include "ganesha-fsal/meta/schema/types.h"
#include "rpc/base/error.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

class Behind {
 public:
  using Work = std::move_only_function<Result<>()>;

  // What the work came to. kBusy: it goes on, or another of the file does, or there are too many.
  [[nodiscard]] Result<> run(FileId file, std::chrono::milliseconds patience, Work work);
  void stop() { queue_.stop(); }

 private:
  static constexpr unsigned kThreads = 16;
  static constexpr std::size_t kMost = 256;

  struct UnderWay;
  void end(FileId file, UnderWay& work, Result<> result);

  Mutex mutex_;
  CondVar ended_;
  std::unordered_map<FileId, std::shared_ptr<UnderWay>> under_way_ WEFT_GUARDED_BY(mutex_);
  WorkQueue queue_{kThreads, kMost};
};

}  // namespace weft::mds
