// Makes this data server's copy of an object equal to another's, where it may differ.
//
// A job goes through its extents piece by piece (1 MiB): it asks the source for the checksums of
// the piece's blocks (store/block_sums.h) and makes its own, reads at the source what differs and
// writes it, makes a hole where the source has zeros, reads the piece back, and compares checksums
// again. So of what is equal only checksums cross the network, 1/256 of the bytes. Of a striped
// file only what the object holds is looked at. The source says where its next data is behind a
// piece of zeros, and what is a hole up to there on both sides is passed over. At the source's end
// the object here is made as long. At the end everything is committed, and only then the job is
// done: when the store's verifier is the one that it began with. Otherwise a machine was reset, or
// a sync that nobody waited for failed, and bytes that were read back may be lost: the job fails.
//
// Writes go on meanwhile. The metadata server has first seen to it that new ones are brought here
// (forget missed, or handles of a later epoch), and names the least epoch that may still write: it
// is fenced here, durably, before anything is compared, so that nothing old arrives late. A piece
// is compared and written under a hold of its range (range_locks.h): a write brought here meanwhile
// comes after it. One that was here before is at the source too, or the source waits for it with
// its answer (duplication.h, when_local). What changes at the source between its checksums and
// its bytes is brought here afterwards too; so what is read back is compared with what came, or
// with the checksum where nothing did.
//
// An object that the source does not have makes this one empty, where this one is known to lack
// something. Between copies that are both current (no least epoch) the source has lost it: the job
// fails, and nothing is cut.
//
// A piece that the source has, and cannot read, is left as it is when several tries have failed,
// and the job goes on behind it. It fails at its end; unreadable() says of what it failed, and all
// else is equal.
//
// A job that only reports changes nothing: it counts what differs. What cannot be read here is no
// difference, of which nobody knows which copy is right: the metadata server is told, as of a
// client's read that fails, and the job ends.
//
// A job writes as a client with a handle of its epoch would: once the object is fenced above it, it
// changes nothing more, and the fence is answered when what it was writing is written. So when its
// source is no longer a copy to go by, and the metadata server says so with a fence, nothing old
// is written after it. And one object has one job: a later one begins when the earlier has ended.
// An object that is removed has none: its job ends first, or it would make the object anew.
//
// Jobs are in memory: after a restart, or when one has failed, the metadata server begins again,
// with all extents. What a job that did not come to its end has written need not be stable.
//
// Threading: any thread. A job runs on one I/O thread, the object's.
//
// Ownership: everything in Parts outlives it. stop() first, then the I/O threads.
//
// Bounds: kMaxRunning jobs at once; a finished one is remembered among the last kMaxFinished. All
// jobs share one rate, the last request's: what is fetched counts whole, what is compared a
// quarter.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "dataserver/mirror/duplicator.h"
#include "dataserver/ring/token_bucket.h"
#include "rpc/base/mutex.h"
#include "rpc/control/messages.h"
#include "rpc/control/unreadable.h"

namespace weft::ds {

class Resyncs {
 public:
  static constexpr std::size_t kMaxRunning = 64;
  static constexpr std::size_t kMaxFinished = 1024;
  template <class T>
  using Done = rpc::control::Done<T>;

  struct Parts {
    Store& store;
    Duplicator& duplicator;  // its locks, its way to the source, and its reports
    Clock& clock;
    BufferPool& pool;
    std::vector<IoRing*> rings;
    // Refuses handles of the object below the epoch from now on, durably, and lets writes end.
    std::function<void(const layout::ObjectId&, std::uint32_t epoch, Done<void>)> fence;
    // On the I/O thread: kFenced, or a token that is held while the object is changed.
    std::function<Result<WritesInFlight::Token>(const layout::ObjectId&, std::uint32_t epoch)>
        admit;
    std::function<std::uint32_t()> own_id;  // this data server's; from any thread
  };

  explicit Resyncs(Parts parts);
  ~Resyncs();

  // Answered when it has begun, others of the object having ended. kBusy at the limit.
  void start(rpc::control::Resync request, Done<void> done);
  [[nodiscard]] rpc::control::ResyncProgress status(std::uint64_t job) const;
  // What the source cannot read, when that is all that a job failed of.
  [[nodiscard]] rpc::control::Unreadable unreadable(std::uint64_t job) const;
  // Answered when nothing of it runs any more.
  void cancel(std::uint64_t job, Done<void> done);
  // The object is to be removed. Answered when no job of it that had begun runs any more.
  void removing(const layout::ObjectId& object, std::move_only_function<void()> done);
  // Cancels all, and waits at most `limit`. False: something still runs.
  bool stop(std::chrono::milliseconds limit);

 private:
  class Job;
  void finished(std::uint64_t job);
  // A job of the object that runs, other than `job`.
  [[nodiscard]] std::shared_ptr<Job> running_of(const layout::ObjectId& object,
                                                std::uint64_t job) const WEFT_REQUIRES(mutex_);

  Parts parts_;
  SharedRate rate_;
  mutable Mutex mutex_;
  CondVar none_runs_;
  std::map<std::uint64_t, std::shared_ptr<Job>> jobs_ WEFT_GUARDED_BY(mutex_);
  std::deque<std::uint64_t> done_ WEFT_GUARDED_BY(mutex_);
  std::size_t running_ WEFT_GUARDED_BY(mutex_) = 0;
  bool stopped_ WEFT_GUARDED_BY(mutex_) = false;
};

}  // namespace weft::ds
