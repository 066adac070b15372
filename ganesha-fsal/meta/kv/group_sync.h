// One sync of the log for many commits.
//
// Threads note their commits and wait; the first to wait becomes the leader, syncs everything noted
// by then, and wakes one of the rest, to be the next leader, and those it covered.
//
// Threading: any thread.
//
// Invariants:
//  1. durable_ <= committed_; both only grow.
//  2. At most one sync runs; what it covers was noted before it began.
//  3. After a failed sync or write nothing becomes durable any more.
//  4. on_failure is called once, before anybody is answered with the failure.
//  5. While somebody waits, a sync runs or somebody that was woken is about to begin one.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <vector>

#include "ganesha-fsal/meta/kv/kv.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

class GroupSync {
 public:
  using Sync = std::function<Result<>()>;
  using OnFailure = std::function<void(const Error&)>;
  explicit GroupSync(Sync sync, OnFailure on_failure = {})
      : sync_(std::move(sync)), on_failure_(std::move(on_failure)) {}

  // A commit has been written to the log. Its place in the order.
  [[nodiscard]] CommitSeq note_commit();
  [[nodiscard]] Result<> wait(CommitSeq seq);
  // The store has failed: every wait from now on answers `error`. The first failure stays.
  void poison(const Error& error);
  [[nodiscard]] std::optional<Error> poisoned() const;
  // The store has been opened again: what was committed is durable or gone.
  void restart();
  [[nodiscard]] CommitSeq durable() const { return durable_; }

  // Since it was made.
  [[nodiscard]] std::uint64_t commits() const { return committed_; }
  [[nodiscard]] std::uint64_t syncs() const { return syncs_; }

 private:
  class Waiter;
  // A sync of what is committed now. Lets go of the mutex meanwhile.
  void lead() WEFT_REQUIRES(mutex_);
  // Those that need not wait any more, and one more. Lets go of the mutex meanwhile.
  void wake() WEFT_REQUIRES(mutex_);
  // Lets go of the mutex while on_failure_ is called.
  void fail_with(const Error& error) WEFT_REQUIRES(mutex_);
  // The failure, once on_failure_ has returned.
  [[nodiscard]] std::optional<Error> failure() const WEFT_REQUIRES(mutex_);

  const Sync sync_;
  const OnFailure on_failure_;
  mutable Mutex mutex_;
  mutable CondVar reported_;  // told_
  std::atomic<CommitSeq> committed_{0};
  std::atomic<CommitSeq> durable_{0};  // written under mutex_
  std::atomic<std::uint64_t> syncs_{0};
  std::vector<Waiter*> waiting_ WEFT_GUARDED_BY(mutex_);  // not woken yet, in order of coming
  bool syncing_ WEFT_GUARDED_BY(mutex_) = false;
  std::optional<Error> failed_ WEFT_GUARDED_BY(mutex_);
  std::atomic<bool> has_failed_{false};        // failed_ is set; written under mutex_
  bool told_ WEFT_GUARDED_BY(mutex_) = false;  // on_failure_ has returned
};

}  // namespace weft::mds
