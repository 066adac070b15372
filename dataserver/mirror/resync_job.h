// One job of Resyncs. Internal to dataserver/mirror.
//
//   resync_job.cc     the job: its pieces one after the other, rate, progress, end
//   resync_piece.cc   one piece: hold, checksums, fetch, write, read back
//
// It is a Flow (rpc/base/task.h), which keeps the job: whatever it waits for has it.
//
// Threading: start(), progress() and cancel() from any thread; the rest on the object's I/O thread.
#pragma once

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <expected>
#include <optional>
#include <span>

#include "dataserver/mirror/resync.h"
#include "dataserver/store/block_sums.h"
#include "layout/striping.h"
#include "rpc/base/mutex.h"
#include "rpc/base/task.h"

namespace weft::ds {

// Which of a file's bytes an object holds.
class HeldBytes {
 public:
  HeldBytes() = default;  // all
  HeldBytes(const layout::Striping& striping, std::uint32_t server)
      : striping_(striping), server_(server) {}

  // How many below `end`.
  [[nodiscard]] std::uint64_t below(std::uint64_t end) const;
  // The first at or after `offset`, kMaxEnd at most.
  [[nodiscard]] std::uint64_t next(std::uint64_t offset) const;
  // One past the last below `end`.
  [[nodiscard]] std::uint64_t last(std::uint64_t end) const;

 private:
  std::optional<layout::Striping> striping_;
  std::uint32_t server_ = 0;
};

class Resyncs::Job : public std::enable_shared_from_this<Job> {
 public:
  using Progress = rpc::control::ResyncProgress;

  Job(Parts& parts, SharedRate& rate, rpc::control::Resync request, IoRing& ring,
      std::function<void()> over);

  void start();
  [[nodiscard]] const layout::ObjectId& object() const { return request_.object; }
  [[nodiscard]] Progress progress() const;
  [[nodiscard]] rpc::control::Unreadable unreadable() const;
  // `done` is called when it is over, at once if it is.
  void cancel(std::move_only_function<void()> done);

 private:
  struct Piece;
  // Why a piece was not gone through to its end.
  struct Stopped {
    Error why;
    bool again = false;      // it may be tried again; else the job ends
    bool at_source = false;  // the source is there, and cannot read it
  };
  template <class T = void>
  using Step = std::expected<T, Stopped>;
  static std::unexpected<Stopped> again(Error why) {
    return std::unexpected<Stopped>({std::move(why), true});
  }
  static std::unexpected<Stopped> over(Error why) {
    return std::unexpected<Stopped>({std::move(why), false});
  }
  static std::unexpected<Stopped> source_fails(Error why) {
    return std::unexpected<Stopped>({std::move(why), true, true});
  }
  static Error lost() { return {Errc::kIo, "the store may have lost what was written"}; }
  using Reads = std::vector<rpc::nfs4::ReadArgs>;

  // resync_job.cc
  [[nodiscard]] Flow run(std::shared_ptr<Job> keep);
  [[nodiscard]] Task<Result<>> all_pieces();
  // Nothing: there is no more.
  [[nodiscard]] std::optional<ByteRange> next_range() const;
  // kCancelled; else when the rate allows more.
  [[nodiscard]] Task<Result<>> await_turn();
  [[nodiscard]] Task<Result<>> through(Piece& piece);
  void leave(Piece& piece);
  // Fails if there is anything that the source cannot read.
  [[nodiscard]] Result<> tell_left();
  [[nodiscard]] Task<Result<>> rest(Nanoseconds time);
  [[nodiscard]] Task<Result<>> skip_hole(const ObjectSums& wanted);
  void count(std::uint64_t Progress::* what, std::uint64_t bytes);
  void differs(std::uint64_t offset, std::uint64_t bytes);
  void source_ends_at(std::uint64_t end);
  void count_done(const Piece& piece);
  void done_to(std::uint64_t offset, std::uint64_t compared);
  void end(Result<> result);

  // resync_piece.cc
  // A fence above it, here or at the source, ends the job.
  [[nodiscard]] std::uint32_t epoch() const {
    return std::max(request_.least_epoch, request_.epoch);
  }
  [[nodiscard]] Task<Step<>> attempt(Piece& piece);
  // Holds what may be changed, and asks what is wanted there.
  [[nodiscard]] Task<Step<>> hold_and_ask(Piece& piece);
  // Every READ's result, or NFS4ERR_NOENT.
  [[nodiscard]] Task<Step<rpc::nfs4::CompoundResult>> ask_source(layout::Access access,
                                                                 Reads reads);
  [[nodiscard]] Task<Step<BlockSums>> read_here(const Piece& piece);
  void tell_unreadable(const Piece& piece);
  [[nodiscard]] Task<Step<>> repair(Piece& piece);
  // Asked before anything is changed.
  [[nodiscard]] Step<> admit(Piece& piece);
  [[nodiscard]] Task<Step<>> punch(Piece& piece, const DiffRun& run);
  // Those that one request fetches.
  [[nodiscard]] Task<Step<>> fetch(Piece& piece, std::span<const DiffRun> runs);
  [[nodiscard]] Step<std::vector<Buffer>> take(Piece& piece, std::span<const DiffRun> runs,
                                               rpc::nfs4::CompoundResult& result);
  enum class Ends : std::uint8_t { kCutOnly, kBoth };
  [[nodiscard]] Task<Step<>> settle_end(Piece& piece, Ends ends);
  [[nodiscard]] Task<Step<>> cut_to(std::uint64_t end);
  [[nodiscard]] Task<Step<>> make_empty(Piece& piece);
  [[nodiscard]] Task<Step<>> verify(const Piece& piece);

  Parts& parts_;
  SharedRate& rate_;
  const rpc::control::Resync request_;
  IoRing& ring_;
  const std::function<void()> over_;
  // The I/O thread's.
  Flow::Self flow_;
  ExtentSet extents_;
  HeldBytes held_;
  WriteVerifier verifier_ = 0;  // the store's before anything is compared
  std::uint64_t at_ = 0;        // everything of the extents before it is done
  bool at_source_end_ = false;
  int source_failures_ = 0;
  ExtentSet left_;  // the source cannot read it
  int pieces_left_ = 0;
  boost::asio::steady_timer timer_;
  std::atomic<bool> cancelled_{false};
  mutable Mutex mutex_;
  Progress progress_ WEFT_GUARDED_BY(mutex_);
  rpc::control::Unreadable unreadable_ WEFT_GUARDED_BY(mutex_);
  std::vector<std::move_only_function<void()>> waiting_ WEFT_GUARDED_BY(mutex_);  // for the end
};

struct Resyncs::Job::Piece {
  ByteRange range;
  bool whole_end = false;  // the hold goes to the end: the object may be cut or extended
  RangeLocks::Hold hold;
  ObjectSums wanted;            // of what is to be here
  std::size_t bytes = 0;        // that `wanted` is of: the range, as far as the source goes
  bool source_ends = false;     // within the range
  bool none = false;            // the source has no object
  std::vector<DiffRun> runs;    // what differs
  WritesInFlight::Token token;  // while the object is changed
  int tries = 0;
  int failed_reads = 0;  // at the source
  bool left = false;     // as it is: the source cannot read it
};

}  // namespace weft::ds
