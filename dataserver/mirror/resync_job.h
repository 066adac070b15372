// One job of Resyncs. Internal to dataserver/mirror.
//
// Threading: start(), progress() and cancel() from any thread; the rest on the object's I/O thread.
#pragma once

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <optional>

#include "dataserver/mirror/resync.h"
#include "dataserver/mirror/token_bucket.h"

namespace weft::ds {

class Resyncs::Job : public std::enable_shared_from_this<Job> {
 public:
  using Progress = rpc::control::ResyncProgress;

  Job(Parts& parts, rpc::control::Resync request, IoRing& ring, std::function<void()> over);

  void start();
  [[nodiscard]] Progress progress() const;
  // `done` is called when it is over, at once if it is.
  void cancel(std::move_only_function<void()> done);

 private:
  struct Piece;
  using PiecePtr = std::shared_ptr<Piece>;

  void next();
  void begin(const PiecePtr& piece);
  void read_source(const PiecePtr& piece);
  void source_read(const PiecePtr& piece, Result<rpc::nfs4::CompoundResult> result);
  void read_here(const PiecePtr& piece, std::move_only_function<void(std::vector<std::byte>)> then);
  void source_failed(const PiecePtr& piece, const Error& why);
  void compare(const PiecePtr& piece);
  void repair(const PiecePtr& piece, std::size_t run);
  void settle_end(const PiecePtr& piece);
  void verify(const PiecePtr& piece);
  void piece_done(const PiecePtr& piece);
  void commit();
  void end(Result<> result);

  Parts& parts_;
  const rpc::control::Resync request_;
  IoRing& ring_;
  const std::function<void()> over_;
  // The I/O thread's.
  ExtentSet extents_;
  std::uint64_t at_ = 0;  // everything of the extents before it is done
  bool at_source_end_ = false;
  int source_failures_ = 0;
  TokenBucket bucket_;
  boost::asio::steady_timer timer_;
  std::atomic<bool> cancelled_{false};
  mutable std::mutex mutex_;
  Progress progress_;                                     // protected by mutex_
  std::vector<std::move_only_function<void()>> waiting_;  // protected by mutex_; for the end
};

}  // namespace weft::ds
