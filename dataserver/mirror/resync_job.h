// One job of Resyncs. Internal to dataserver/mirror.
//
//   resync_job.cc     the job: its pieces one after the other, rate, progress, end
//   resync_piece.cc   one piece: hold, checksums, fetch, write, read back
//
// Threading: start(), progress() and cancel() from any thread; the rest on the object's I/O thread.
#pragma once

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <optional>

#include "dataserver/mirror/resync.h"
#include "dataserver/store/block_sums.h"
#include "layout/striping.h"
#include "rpc/base/mutex.h"

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
  // `done` is called when it is over, at once if it is.
  void cancel(std::move_only_function<void()> done);

 private:
  struct Piece;
  using PiecePtr = std::shared_ptr<Piece>;
  using Answered = void (Job::*)(const PiecePtr&, rpc::nfs4::CompoundResult&);

  // resync_job.cc
  void settle_here();
  void next();
  void next_soon();
  void count(std::uint64_t Progress::* what, std::uint64_t bytes);
  void differs(std::uint64_t offset, std::uint64_t bytes);
  void source_ends_at(std::uint64_t end);
  void piece_done(const PiecePtr& piece);
  void skip_hole(const PiecePtr& piece);
  void done_to(std::uint64_t offset, std::uint64_t compared);
  void again(const PiecePtr& piece, const Error& why);
  void commit();
  void end(Result<> result);

  // resync_piece.cc
  void begin(const PiecePtr& piece);
  // A fence above it, here or at the source, ends the job.
  [[nodiscard]] std::uint32_t epoch() const {
    return std::max(request_.least_epoch, request_.epoch);
  }
  void ask_source(const PiecePtr& piece, layout::Access access,
                  std::vector<rpc::nfs4::ReadArgs> reads, Answered answered);
  void ask_sums(const PiecePtr& piece);
  void got_sums(const PiecePtr& piece, rpc::nfs4::CompoundResult& result);
  void read_here(const PiecePtr& piece, std::move_only_function<void(BlockSums)> then);
  void compare(const PiecePtr& piece);
  void repair(const PiecePtr& piece);
  [[nodiscard]] bool admitted(const PiecePtr& piece);
  void punch(const PiecePtr& piece, const DiffRun& run);
  void fetch(const PiecePtr& piece);
  void fetched(const PiecePtr& piece, rpc::nfs4::CompoundResult& result);
  void write(const PiecePtr& piece, std::size_t part);
  void settle_end(const PiecePtr& piece);
  void verify(const PiecePtr& piece);

  Parts& parts_;
  SharedRate& rate_;
  const rpc::control::Resync request_;
  IoRing& ring_;
  const std::function<void()> over_;
  // The I/O thread's.
  ExtentSet extents_;
  HeldBytes held_;
  std::uint64_t at_ = 0;  // everything of the extents before it is done
  bool at_source_end_ = false;
  int source_failures_ = 0;
  boost::asio::steady_timer timer_;
  std::atomic<bool> cancelled_{false};
  mutable Mutex mutex_;
  Progress progress_ WEFT_GUARDED_BY(mutex_);
  std::vector<std::move_only_function<void()>> waiting_ WEFT_GUARDED_BY(mutex_);  // for the end
};

struct Resyncs::Job::Piece {
  ByteRange range;
  bool whole_end = false;  // the hold goes to the end: the object may be cut or extended
  RangeLocks::Hold hold;
  ObjectSums wanted;              // of what is to be here
  std::size_t bytes = 0;          // that `wanted` is of: the range, as far as the source goes
  bool source_ends = false;       // within the range
  std::vector<DiffRun> runs;      // what differs
  std::size_t run = 0;            // all before it are mended
  std::vector<DiffRun> fetching;  // parts of runs that are being fetched
  WritesInFlight::Token token;    // while the object is changed
  std::vector<Buffer> came;       // their bytes
  int tries = 0;
};

}  // namespace weft::ds
