// Server-side duplication: a data server that is written to through a handle that names partners
// brings the bytes to them itself (CEFT-PVFS protocols 1 and 2).
//
// Synchronous: the bytes go to the partners and to the own store at the same time, from the one
// buffer they were received in; the client is answered when all have them, with the weakest
// stability. Asynchronous: an UNSTABLE4 write is answered when the own store has the bytes, while
// what is owed to the partners is within a window of bytes and age; beyond it, and for stable
// writes, it is as synchronous. COMMIT waits for everything of its object and commits everywhere.
// So nothing is ever called durable that is on one copy only without the metadata server knowing.
//
// The write verifier is made of a number drawn when this process started, the own store's verifier
// and those of the partners. It changes when any of them restarts; a partner that is left out, its
// loss being recorded, goes on counting with the one it had last.
//
// Invariants:
//  1. Nothing is acknowledged that a partner may lack until the metadata server has durably marked
//     its copy as having missed it. That holds for everything but "written here and there": a
//     partner that is away, is slow, refuses or fails; and a write that failed here, which the
//     partner may have.
//  2. When the store here fails, in whatever way, and not a partner's, it is the own copy that
//     missed the write: once it is marked the client is refused (kFenced), and goes on with another
//     layout. If it cannot be marked, being the last that is current, the client hears of the
//     failure, and rule 1 holds; the metadata server is told with it that the write failed here,
//     too. "Try again" is tried again first, for as long as a partner has to answer. Only what no
//     store could do (failed_by_store()) is no failure of this one. While the metadata server does
//     not answer, the client is told to try again, and the object's next COMMIT tells of the copy
//     before it is answered.
//  3. Writes that overlap reach every copy in one order (range_locks.h).
//  4. A COMMIT is answered when each partner has committed, or what it may lose has been marked.
//
// Threading: Duplication's methods on I/O threads; forget(), counts() and transports() from any
// thread; stop() from the program's main thread.
//
// Ownership: everything in Parts outlives it. stop() first, then the I/O threads.
#pragma once

#include <memory>
#include <set>
#include <vector>

#include "dataserver/mirror/copy_book.h"
#include "dataserver/mirror/duplication.h"
#include "dataserver/mirror/mirror_options.h"
#include "dataserver/mirror/missed_reports.h"
#include "dataserver/mirror/partner_link.h"
#include "dataserver/ring/range_locks.h"
#include "rpc/base/log_limit.h"
#include "rpc/base/mutex.h"
#include "rpc/base/task.h"
#include "rpc/peer/keyring.h"

namespace weft::ds {

struct CopyPart;

struct MirrorCounts {
  std::uint64_t pending_bytes = 0;  // answered and not yet at every partner
  std::chrono::milliseconds oldest_pending{0};
  std::uint32_t partners_away = 0;
  std::uint64_t forwarded_bytes = 0;
  std::uint64_t missed_writes = 0;
};

class Duplicator final : public Duplication {
 public:
  struct Parts {
    Store& store;
    std::shared_ptr<const rpc::peer::Keyring> keys;
    MirrorAuthority& authority;
    Clock& clock;
    std::vector<IoRing*> rings;  // one for each I/O thread, in the order of their index
    std::uint64_t boot = 0;      // drawn at random when the process started
    MirrorOptions options;
    LinkConfig link;      // its timeout is that of the options, and so are its keys these
    RoundLimits reports;  // how long a write waits for the metadata server
  };

  explicit Duplicator(Parts parts);
  ~Duplicator() override;

  void write(const layout::Handle& handle, std::uint64_t offset, std::vector<Buffer> data,
             Stability wanted, WritesInFlight::Token token, Store::Done<WriteResult> done) override;
  void commit(const layout::Handle& handle, Store::Done<WriteVerifier> done) override;
  void when_local(const layout::ObjectId& object, std::uint64_t offset, std::uint64_t count,
                  std::function<void()> done) override;
  void unreadable(const layout::Handle& handle, std::uint64_t offset, std::uint64_t count,
                  std::move_only_function<void(bool left_out)> done) override;

  // The partner's copy is to be written again. A partner that counts as away here, and has just
  // come back, is waited for, two seconds at most. Answered when no write is left that began
  // before, and may have been acknowledged because of what is forgotten.
  void forget(const layout::ObjectId& object, std::uint32_t partner,
              std::move_only_function<void()> done);
  // The object is gone: what is known of its copies is of no use.
  void removed(const layout::ObjectId& object) { book_.remove(object); }
  [[nodiscard]] RangeLocks& locks() { return locks_; }
  // The calling I/O thread's way to another data server.
  [[nodiscard]] PartnerLink& link(std::uint32_t ds_id);
  [[nodiscard]] layout::SealedHandle seal(const layout::Handle& handle) const {
    return layout::seal(handle, parts_.keys->sealing());
  }
  [[nodiscard]] MirrorCounts counts() const;
  // By which each partner is reached now.
  [[nodiscard]] std::vector<rpc::control::PartnerTransports> transports() const {
    return partners_.transports();
  }

  // Waits until nothing is owed to partners any more, at most `limit`; then ends the sessions with
  // them. False: something was still owed.
  bool stop(std::chrono::milliseconds limit);
  // Ends the calling I/O thread's sessions with partners; stop() does it on all.
  void end_links();

 private:
  struct WriteOp;
  struct CommitOp;
  struct PerThread;

  [[nodiscard]] PerThread& mine();
  void after_rest(std::move_only_function<void()> then);
  [[nodiscard]] WriteVerifier combine(WriteVerifier own,
                                      std::span<const WriteVerifier> others) const;

  // duplicator_write.cc
  Flow write_copies(WriteOp op);
  void find_copies(WriteOp& op);
  void send(WriteOp& op, CopyPart& copy, Callbacks& answers);
  void answered(WriteOp& op, CopyPart& copy, Result<rpc::nfs4::CompoundResult> result);
  void answer_early(WriteOp& op);
  // The partners of which the metadata server is to hear that they missed it.
  [[nodiscard]] static std::vector<std::uint32_t> untold(const WriteOp& op);
  // False: the client is refused.
  Task<bool> report_missed(WriteOp& op, Flow::Self self);
  Task<bool> report_partners(WriteOp& op, Flow::Self self);
  void finish(WriteOp& op);
  [[nodiscard]] bool window_takes(const WriteOp& op) const;

  // duplicator_commit.cc
  Flow commit_copies(layout::Handle handle, Store::Done<WriteVerifier> done);
  void ask_partner(CommitOp& op, CopyPart& copy, Callbacks& answers);
  Task<Result<WriteVerifier>> commit_here(layout::ObjectId object, TimePoint deadline,
                                          Flow::Self self);
  Task<Result<WriteVerifier>> failed_here(CommitOp& op, Flow::Self self);
  // False: the client is refused.
  Task<bool> report_behind(CommitOp& op, Flow::Self self);
  Task<Result<WriteVerifier>> report_lost(CommitOp& op, Flow::Self self);

  Parts parts_;
  // There is a line for each READ or WRITE.
  LogLimit unreadable_log_;
  LogLimit partner_refused_log_;
  LogLimit copy_refused_log_;
  RangeLocks locks_;
  CopyBook book_;
  Partners partners_;
  std::vector<std::unique_ptr<PerThread>> threads_;
  std::atomic<std::uint64_t> pending_bytes_{0};
  std::atomic<std::uint64_t> forwarded_bytes_{0};
  std::atomic<std::uint64_t> missed_writes_{0};
  mutable Mutex pending_mutex_;
  CondVar none_pending_;
  std::multiset<TimePoint> pending_ WEFT_GUARDED_BY(pending_mutex_);  // when they were answered
};

}  // namespace weft::ds
