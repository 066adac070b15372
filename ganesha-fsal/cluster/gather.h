// One completion for several: succeeds when all have, else fails with the first failure, once all
// have ended.
//
// Threading: the parts may complete on any threads. `done` runs where the last one does, or within
// make() when there are none.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "rpc/base/error.h"
#include "rpc/base/mutex.h"
#include "rpc/control/messages.h"

namespace weft::mds {

class Gather : public std::enable_shared_from_this<Gather> {
 public:
  using Done = rpc::control::Done<void>;

  // one() must then be called `parts` times, and each of what it returned once.
  [[nodiscard]] static std::shared_ptr<Gather> make(std::size_t parts, Done done) {
    auto gather = std::shared_ptr<Gather>(new Gather(parts, std::move(done)));
    if (parts == 0) gather->done_({});
    return gather;
  }

  [[nodiscard]] Done one() {
    return [self = shared_from_this()](Result<> outcome) { self->arrive(std::move(outcome)); };
  }

 private:
  Gather(std::size_t parts, Done done) : left_(parts), done_(std::move(done)) {}

  void arrive(Result<> outcome) {
    MutexLock lock(mutex_);
    if (!outcome && outcome_) outcome_ = std::move(outcome);
    if (--left_ > 0) return;
    Result<> all = std::move(outcome_);
    lock.unlock();
    done_(std::move(all));
  }

  Mutex mutex_;
  std::size_t left_ WEFT_GUARDED_BY(mutex_);
  Result<> outcome_ WEFT_GUARDED_BY(mutex_);
  Done done_;
};

}  // namespace weft::mds
