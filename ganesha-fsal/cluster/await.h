// Waiting for an asynchronous call of the cluster, for threads that may block (Ganesha's workers;
// never a cluster thread's completion).
//
//   Result<> cut = await<void>([&](Done<void> done) {
//     cluster.objects().truncate(map, object, size, std::move(done)); });
//
// Every call of the cluster completes by its own deadline, so this returns. kBusy, and nothing is
// called, when too many threads of a pool wait already (wait_limit.h).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "ganesha-fsal/cluster/wait_limit.h"
#include "rpc/base/error.h"
#include "rpc/base/mutex.h"
#include "rpc/control/messages.h"

namespace weft::mds {

template <class T>
[[nodiscard]] Result<T> await(std::move_only_function<void(rpc::control::Done<T>)> start) {
  // Shared with the completion, which may still hold the mutex when this function returns.
  struct State {
    Mutex mutex;
    CondVar ready;
    std::optional<Result<T>> result WEFT_GUARDED_BY(mutex);
  };
  if (!WaitLimit::may_wait()) {
    return fail(Errc::kBusy, "too many requests wait for data servers");
  }
  const auto state = std::make_shared<State>();
  start([state](Result<T> result) {
    const MutexLock lock(state->mutex);
    state->result.emplace(std::move(result));
    state->ready.notify_one();
  });
  MutexLock lock(state->mutex);
  state->ready.wait(state->mutex,
                    [&]() WEFT_REQUIRES(state->mutex) { return state->result.has_value(); });
  return std::move(*state->result);
}

// The same for a call that completes with a result and something more.
template <class T, class More>
[[nodiscard]] std::pair<Result<T>, More> await_with(
    std::move_only_function<void(std::move_only_function<void(Result<T>, More)>)> start) {
  More more{};
  auto result = await<T>([&](rpc::control::Done<T> done) {
    start([&more, done = std::move(done)](Result<T> outcome, More with) mutable {
      more = std::move(with);
      done(std::move(outcome));
    });
  });
  return {std::move(result), std::move(more)};
}

}  // namespace weft::mds
