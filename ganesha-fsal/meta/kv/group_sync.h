// One sync of the log for many commits.
//
// Who notes commits and then waits while nobody else does syncs the log itself. All who come
// meanwhile are covered by the next sync, which a thread of this object makes; that goes on for as
// long as there is somebody. One waits asleep, or has himself told.
//
// Threading: any thread. Nobody comes any more when finish() is called, or it is destroyed.
//
// Invariants:
//  1. durable_ <= committed_; both only grow.
//  2. At most one sync runs; what it covers was noted before it began.
//  3. After a failed sync or write nothing becomes durable any more.
//  4. on_failure is called once, before anybody is answered with the failure.
//  5. While somebody waits, a sync runs or the thread is about to begin one.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <span>
#include <thread>
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
  GroupSync(const GroupSync&) = delete;
  GroupSync& operator=(const GroupSync&) = delete;
  ~GroupSync() { finish(); }

  // A commit has been written to the log. Its place in the order.
  [[nodiscard]] CommitSeq note_commit();
  [[nodiscard]] Result<> wait(CommitSeq seq);
  // Has `who` told when wait(seq) would return at once, with others, and by any thread: perhaps
  // before this returns. False: it does at once, and nobody is told.
  [[nodiscard]] bool tell_when_settled(CommitSeq seq, KvStore::Tell tell, void* who);
  // Returns when all who were to be told are told.
  void finish();
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
  struct Told {
    CommitSeq seq;
    KvStore::Tell tell;
    void* who;
  };
  // A sync of what is committed now. Lets go of the mutex meanwhile.
  void lead() WEFT_REQUIRES(mutex_);
  // Those that need not wait any more, and the thread if there are others. Lets go of the mutex
  // meanwhile.
  void wake() WEFT_REQUIRES(mutex_);
  [[nodiscard]] bool waited_for() const WEFT_REQUIRES(mutex_) {
    return !waiting_.empty() || !to_tell_.empty();
  }
  void lead_on();                            // the thread
  void need_thread() WEFT_REQUIRES(mutex_);  // before there is anybody for it
  static void tell(std::span<const Told> told);
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
  std::vector<Waiter*> waiting_ WEFT_GUARDED_BY(mutex_);  // not woken yet
  std::vector<Told> to_tell_ WEFT_GUARDED_BY(mutex_);
  bool syncing_ WEFT_GUARDED_BY(mutex_) = false;
  std::optional<Error> failed_ WEFT_GUARDED_BY(mutex_);
  std::atomic<bool> has_failed_{false};        // failed_ is set; written under mutex_
  bool told_ WEFT_GUARDED_BY(mutex_) = false;  // on_failure_ has returned
  bool stop_ WEFT_GUARDED_BY(mutex_) = false;
  unsigned telling_ WEFT_GUARDED_BY(mutex_) = 0;  // who leads, and has not told all yet
  CondVar all_told_;                              // telling_ is 0
  CondVar wanted_;                                // of the thread
  std::thread thread_ WEFT_GUARDED_BY(mutex_);    // from when it is first wanted
};

}  // namespace weft::mds
