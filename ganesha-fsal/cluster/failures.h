// One completion for what is sent to several data servers: as Gather, and who failed.
//
// Threading: the parts may complete on any threads. `done` runs where the last one does, or within
// make() when there are none.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rpc/base/error.h"
#include "rpc/base/mutex.h"
#include "rpc/control/messages.h"

namespace weft::mds {

// A data server that did not do its part, and how.
struct Failure {
  std::uint32_t ds_id = 0;
  Error error;
};
using Failures = std::vector<Failure>;  // one for each data server at most

template <class T>
using Finished = std::move_only_function<void(Result<T>, Failures)>;

// What one is told who is told of one error only: the first. There is one.
[[nodiscard]] inline Error first_of(const Failures& failures) {
  const Failure& first = failures.front();
  return {first.error.code, "data server " + std::to_string(first.ds_id) + ": " + first.error.text};
}

class GatherFailures : public std::enable_shared_from_this<GatherFailures> {
 public:
  using AllDone = std::move_only_function<void(Failures)>;

  // one() must then be called `parts` times, and each of what it returned once.
  [[nodiscard]] static std::shared_ptr<GatherFailures> make(std::size_t parts, AllDone done) {
    auto gather = std::shared_ptr<GatherFailures>(new GatherFailures(parts, std::move(done)));
    if (parts == 0) gather->done_({});
    return gather;
  }
  [[nodiscard]] static std::shared_ptr<GatherFailures> make(std::size_t parts,
                                                            Finished<void> done) {
    return make(parts, AllDone([done = std::move(done)](Failures failures) mutable {
                  if (failures.empty()) return done({}, {});
                  auto error = first_of(failures);
                  done(std::unexpected(std::move(error)), std::move(failures));
                }));
  }

  [[nodiscard]] rpc::control::Done<void> one(std::uint32_t ds_id) {
    return [self = shared_from_this(), ds_id](Result<> outcome) {
      self->arrive(ds_id, std::move(outcome));
    };
  }

 private:
  GatherFailures(std::size_t parts, AllDone done) : left_(parts), done_(std::move(done)) {}

  void arrive(std::uint32_t ds_id, Result<> outcome) {
    MutexLock lock(mutex_);
    const bool known = std::ranges::find(failures_, ds_id, &Failure::ds_id) != failures_.end();
    if (!outcome && !known) failures_.push_back({ds_id, std::move(outcome.error())});
    if (--left_ > 0) return;
    Failures failures = std::move(failures_);
    lock.unlock();
    done_(std::move(failures));
  }

  Mutex mutex_;
  std::size_t left_ WEFT_GUARDED_BY(mutex_);
  Failures failures_ WEFT_GUARDED_BY(mutex_);
  AllDone done_;
};

}  // namespace weft::mds
