#include "dataserver/mirror/resync_job.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

namespace weft::ds {

namespace {

constexpr std::uint64_t kPieceBytes = kMaxSumRange;
constexpr std::uint64_t kCompareCost = 4;  // a byte compared counts for so much less of the rate
constexpr int kMaxTries = 8;               // of one piece, when it does not verify
constexpr int kMaxSourceFailures = 20;     // one after the other
constexpr int kMaxFailedReads = 3;         // of one piece at the source
constexpr int kMaxPiecesLeft = 256;        // then the rest is left, too
constexpr std::chrono::milliseconds kSourceRest{500};

}  // namespace

std::uint64_t HeldBytes::below(std::uint64_t end) const {
  return striping_ ? striping_->held_below(server_, end) : end;
}

std::uint64_t HeldBytes::next(std::uint64_t offset) const {
  return striping_ ? std::min(striping_->next_held(server_, offset), kMaxEnd) : offset;
}

std::uint64_t HeldBytes::last(std::uint64_t end) const {
  return striping_ ? striping_->object_end(server_, end) : end;
}

Resyncs::Job::Job(Parts& parts, SharedRate& rate, rpc::control::Resync request, IoRing& ring,
                  std::function<void()> over)
    : parts_(parts),
      rate_(rate),
      request_(std::move(request)),
      ring_(ring),
      over_(std::move(over)),
      timer_(ring.context()) {
  for (const rpc::control::Extent& extent : request_.extents) {
    const std::uint64_t begin = std::min(extent.offset, kMaxEnd);
    extents_.add({begin, begin + std::min(extent.length, kMaxEnd - begin)});
  }
  const auto striping =
      layout::Striping::make(request_.stripe_unit, request_.servers, request_.first_index);
  if (striping) held_ = HeldBytes(*striping, request_.server);
  progress_.state = Progress::State::kRunning;
  for (const ByteRange& range : extents_.extents()) {
    progress_.total_bytes += held_.below(range.end) - held_.below(range.begin);
  }
}

void Resyncs::Job::start() {
  auto begin = [self = shared_from_this()](Result<> fenced) {
    self->ring_.post([self, fenced = std::move(fenced)]() mutable {
      if (!fenced) return self->end(std::move(fenced));
      self->run(self).start();
    });
  };
  if (request_.least_epoch == 0) return begin({});
  parts_.fence(request_.object, request_.least_epoch, std::move(begin));
}

Flow Resyncs::Job::run(std::shared_ptr<Job> /*keep*/) {
  flow_ = co_await Flow::self();
  const auto commit = [this](auto done) { parts_.store.commit(request_.object, std::move(done)); };
  // What was written here before is on the disk, or is known not to be: reading past the page cache
  // then shows it. Whether the sync failed does not matter, what is written now is synced at the
  // end. What is lost from here on is known by the verifier.
  if (!request_.report_only) {
    const auto committed = co_await call<Result<WriteVerifier>>(flow_, commit);
    verifier_ = committed ? *committed : parts_.store.verifier();
  }
  Result<> gone = co_await all_pieces();
  if (gone && !request_.report_only) {
    auto committed = co_await call<Result<WriteVerifier>>(flow_, commit);
    if (!committed) {
      gone = pass(committed);
    } else if (*committed != verifier_) {
      gone = std::unexpected(lost());
    }
  }
  if (gone) gone = tell_left();
  end(std::move(gone));
}

Task<Result<>> Resyncs::Job::all_pieces() {
  for (;;) {
    if (auto may = co_await await_turn(); !may) co_return may;
    const auto range = next_range();
    if (!range) co_return {};
    Piece piece{.range = *range};
    if (auto done = co_await through(piece); !done) co_return done;
    if (piece.left) {
      leave(piece);
    } else {
      count_done(piece);
      static_cast<void>(co_await skip_hole(piece.wanted));
    }
    // Others of the thread have their turn, also when no piece has to wait.
    static_cast<void>(co_await rest(Nanoseconds(0)));
  }
}

Resyncs::Job::Progress Resyncs::Job::progress() const {
  const MutexLock lock(mutex_);
  return progress_;
}

rpc::control::Unreadable Resyncs::Job::unreadable() const {
  const MutexLock lock(mutex_);
  return unreadable_;
}

void Resyncs::Job::cancel(std::move_only_function<void()> done) {
  cancelled_ = true;
  {
    const MutexLock lock(mutex_);
    if (progress_.state == Progress::State::kRunning) {
      waiting_.push_back(std::move(done));
      return;
    }
  }
  done();
}

Task<Result<>> Resyncs::Job::rest(Nanoseconds time) {
  timer_.expires_after(time);
  static_cast<void>(co_await call<boost::system::error_code>(
      flow_, [this](auto done) { timer_.async_wait(std::move(done)); }));
  if (cancelled_) co_return fail(Errc::kCancelled, "cancelled");
  co_return {};
}

Task<Result<>> Resyncs::Job::await_turn() {
  for (;;) {
    if (cancelled_) co_return fail(Errc::kCancelled, "cancelled");
    const Nanoseconds wait = rate_.wait(parts_.clock.now());
    if (wait.count() <= 0) co_return {};
    static_cast<void>(co_await rest(std::min<Nanoseconds>(wait, std::chrono::milliseconds(200))));
  }
}

std::optional<ByteRange> Resyncs::Job::next_range() const {
  const auto& all = extents_.extents();
  for (auto found = std::ranges::upper_bound(all, at_, {}, &ByteRange::end);
       found != all.end() && !at_source_end_; ++found) {
    const std::uint64_t first = held_.next(std::max(at_, found->begin));
    if (first >= found->end) continue;  // nothing of it is held here
    const std::uint64_t limit = std::min(found->end, (first / kPieceBytes + 1) * kPieceBytes);
    return ByteRange{first, held_.last(limit)};
  }
  return std::nullopt;
}

// The source may be away for a moment, or be cut while it is read; nothing is held meanwhile.
Task<Result<>> Resyncs::Job::through(Piece& piece) {
  for (;;) {
    const Step<> done = co_await attempt(piece);
    piece.token.reset();
    piece.hold.release();
    if (done) break;
    const Stopped& stopped = done.error();
    if (!stopped.again) co_return std::unexpected(stopped.why);
    if (cancelled_) co_return fail(Errc::kCancelled, "cancelled");
    const bool corrupt = stopped.why == Errc::kCorrupt;
    if (stopped.at_source) {
      piece.left = ++piece.failed_reads >= kMaxFailedReads;
      if (piece.left) break;
    } else if (corrupt ? ++piece.tries > kMaxTries : ++source_failures_ > kMaxSourceFailures) {
      co_return std::unexpected(stopped.why);
    }
    if (auto rested = co_await rest(kSourceRest); !rested) co_return rested;
  }
  source_failures_ = 0;
  co_return {};
}

// What comes later is made equal in any case. A disk of which nothing can be read is not tried
// piece by piece.
void Resyncs::Job::leave(Piece& piece) {
  const bool all = ++pieces_left_ == kMaxPiecesLeft;
  const std::uint64_t end = all ? kMaxEnd : piece.range.end;
  spdlog::warn("event=resync_source_unreadable job={} object={} source={} offset={} bytes={}",
               request_.job, layout::to_string(request_.object), request_.source, piece.range.begin,
               end - piece.range.begin);
  left_.add({piece.range.begin, end}, rpc::control::kMaxExtents);
  done_to(end, 0);
}

Result<> Resyncs::Job::tell_left() {
  if (left_.empty()) return {};
  const MutexLock lock(mutex_);
  for (const ByteRange& range : left_.extents()) {
    unreadable_.extents.push_back({range.begin, range.end - range.begin});
  }
  return fail(Errc::kIo,
              fmt::format("data server {} cannot read what is to be copied, from byte {}",
                          request_.source, left_.extents().front().begin));
}

void Resyncs::Job::count(std::uint64_t Progress::* what, std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  progress_.*what += bytes;
}

// Pieces come in order; one that is gone through again tells the same once more.
void Resyncs::Job::differs(std::uint64_t offset, std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  progress_.differing_bytes += bytes;
  auto& extents = progress_.differing;
  if (!extents.empty()) {
    rpc::control::Extent& last = extents.back();
    if (offset < last.offset + last.length) return;
    if (offset == last.offset + last.length) {
      last.length += bytes;
      return;
    }
  }
  if (bytes > 0 && extents.size() < rpc::control::kMaxDiffering) extents.push_back({offset, bytes});
}

// There is no more to compare than that, but for what is to be cut off here.
void Resyncs::Job::source_ends_at(std::uint64_t end) {
  std::uint64_t total = 0;
  for (const ByteRange& range : extents_.extents()) {
    total += held_.below(std::min(range.end, end)) - held_.below(std::min(range.begin, end));
  }
  const MutexLock lock(mutex_);
  progress_.total_bytes = std::max(total, progress_.compared_bytes);
}

void Resyncs::Job::count_done(const Piece& piece) {
  const std::uint64_t end = std::min(piece.range.end, piece.range.begin + piece.bytes);
  const std::uint64_t size = held_.below(end) - held_.below(piece.range.begin);
  rate_.use(size / kCompareCost);
  at_source_end_ = piece.source_ends;
  done_to(piece.range.end, size);
}

void Resyncs::Job::done_to(std::uint64_t offset, std::uint64_t compared) {
  at_ = offset;
  const MutexLock lock(mutex_);
  progress_.compared_bytes += compared;
  progress_.next_offset = at_;
}

// What is a hole there and here is equal. Nothing need be held: what is written there from now on,
// or was when it was asked, is brought here; and here is asked after that, so what was here before
// is found.
Task<Result<>> Resyncs::Job::skip_hole(const ObjectSums& wanted) {
  // The piece with the source's end is gone through: the object here is to end there, too.
  const std::uint64_t last = std::max(wanted.object_end, std::uint64_t{1}) - 1;
  const std::uint64_t there = std::min({wanted.next_data, last, kMaxEnd - 1});
  if (at_source_end_ || there / kPieceBytes * kPieceBytes <= at_) co_return {};
  const auto here = co_await call<Result<DataRun>>(
      flow_, [this](auto done) { parts_.store.next_data(request_.object, at_, std::move(done)); });
  if (!here && here.error() != Errc::kNotFound) co_return {};
  const std::uint64_t until = here ? std::min(there, here->begin) : there;
  const std::uint64_t to = until / kPieceBytes * kPieceBytes;
  if (to <= at_) co_return {};
  std::uint64_t compared = 0;
  for (const ByteRange& range : extents_.extents()) {
    const auto below = [&](std::uint64_t end) {
      return held_.below(std::clamp(end, range.begin, range.end));
    };
    compared += below(to) - below(at_);
  }
  done_to(to, compared);
  co_return {};
}

void Resyncs::Job::end(Result<> result) {
  std::vector<std::move_only_function<void()>> waiting;
  {
    const MutexLock lock(mutex_);
    if (progress_.state != Progress::State::kRunning) return;
    progress_.state = result ? Progress::State::kDone : Progress::State::kFailed;
    if (!result) progress_.error = result.error().describe();
    waiting.swap(waiting_);
  }
  const Progress now = progress();
  if (result) {
    spdlog::info("event=resync_done job={} object={} compared={} differing={} copied={}",
                 request_.job, layout::to_string(request_.object), now.compared_bytes,
                 now.differing_bytes, now.copied_bytes);
  } else {
    spdlog::warn("event=resync_failed job={} object={} next={} error=\"{}\"", request_.job,
                 layout::to_string(request_.object), at_, result.error().describe());
  }
  over_();
  for (auto& done : waiting) done();
}

}  // namespace weft::ds
