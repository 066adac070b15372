#include "dataserver/mirror/resync_job.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace weft::ds {

namespace {

constexpr std::uint64_t kPieceBytes = kMaxSumRange;
constexpr std::uint64_t kCompareCost = 4;  // a byte compared counts for so much less of the rate
constexpr int kMaxTries = 8;               // of one piece, when it does not verify
constexpr int kMaxSourceFailures = 20;     // one after the other
constexpr std::chrono::milliseconds kSourceRest{500};

}  // namespace

std::uint64_t HeldBytes::below(std::uint64_t end) const {
  if (!striping_) return end;
  const std::uint64_t unit = striping_->unit_bytes();
  const std::uint64_t cycle = unit * striping_->count();
  const std::uint64_t first = striping_->next_held(server_, 0);
  const std::uint64_t rest = end % cycle;
  return end / cycle * unit + (rest <= first ? 0 : std::min(unit, rest - first));
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
      self->settle_here();
    });
  };
  if (request_.least_epoch == 0) return begin({});
  parts_.fence(request_.object, request_.least_epoch, std::move(begin));
}

// What was written here before is on the disk, or is known not to be: reading past the page cache
// then shows it. Whether the sync failed does not matter, what is written now is synced at the end.
void Resyncs::Job::settle_here() {
  if (request_.report_only) return next();
  parts_.store.commit(request_.object,
                      [self = shared_from_this()](const Result<WriteVerifier>&) { self->next(); });
}

Resyncs::Job::Progress Resyncs::Job::progress() const {
  const MutexLock lock(mutex_);
  return progress_;
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

void Resyncs::Job::next() {
  if (cancelled_) return end(fail(Errc::kCancelled, "cancelled"));
  const Nanoseconds wait = rate_.wait(parts_.clock.now());
  if (wait.count() > 0) {
    timer_.expires_after(std::min<Nanoseconds>(wait, std::chrono::milliseconds(200)));
    timer_.async_wait([self = shared_from_this()](const auto&) { self->next(); });
    return;
  }
  const auto& all = extents_.extents();
  for (auto found = std::ranges::upper_bound(all, at_, {}, &ByteRange::end);
       found != all.end() && !at_source_end_; ++found) {
    const std::uint64_t first = held_.next(std::max(at_, found->begin));
    if (first >= found->end) continue;  // nothing of it is held here
    auto piece = std::make_shared<Piece>();
    const std::uint64_t limit = std::min(found->end, (first / kPieceBytes + 1) * kPieceBytes);
    piece->range = {first, held_.last(limit)};
    return begin(piece);
  }
  commit();
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

void Resyncs::Job::piece_done(const PiecePtr& piece) {
  piece->token.reset();
  piece->hold.release();
  source_failures_ = 0;
  const std::uint64_t end = std::min(piece->range.end, piece->range.begin + piece->bytes);
  const std::uint64_t size = held_.below(end) - held_.below(piece->range.begin);
  rate_.use(size / kCompareCost);
  at_source_end_ = piece->source_ends;
  done_to(piece->range.end, size);
  skip_hole(piece);
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
void Resyncs::Job::skip_hole(const PiecePtr& piece) {
  // The piece with the source's end is gone through: the object here is to end there, too.
  const std::uint64_t last = std::max(piece->wanted.object_end, std::uint64_t{1}) - 1;
  const std::uint64_t there = std::min({piece->wanted.next_data, last, kMaxEnd - 1});
  if (at_source_end_ || there / kPieceBytes * kPieceBytes <= at_) return next_soon();
  parts_.store.next_data(request_.object, at_,
                         [self = shared_from_this(), there](const Result<DataRun>& here) {
                           std::uint64_t to = there;
                           if (here) to = std::min(to, here->begin);
                           to = to / kPieceBytes * kPieceBytes;
                           const bool known = here || here.error() == Errc::kNotFound;
                           if (known && to > self->at_) {
                             std::uint64_t compared = 0;
                             for (const ByteRange& range : self->extents_.extents()) {
                               const auto below = [&](std::uint64_t end) {
                                 return self->held_.below(std::clamp(end, range.begin, range.end));
                               };
                               compared += below(to) - below(self->at_);
                             }
                             self->done_to(to, compared);
                           }
                           self->next_soon();
                         });
}

void Resyncs::Job::next_soon() {
  // Not from within: pieces that need no waiting would nest.
  ring_.post([self = shared_from_this()] { self->next(); });
}

// The source may be away for a moment, or be cut while it is read; nothing is held meanwhile.
void Resyncs::Job::again(const PiecePtr& piece, const Error& why) {
  piece->token.reset();
  piece->hold.release();
  if (cancelled_) return end(fail(Errc::kCancelled, "cancelled"));
  const bool corrupt = why == Errc::kCorrupt;
  if (corrupt ? ++piece->tries > kMaxTries : ++source_failures_ > kMaxSourceFailures) {
    return end(std::unexpected(why));
  }
  timer_.expires_after(kSourceRest);
  timer_.async_wait([self = shared_from_this(), piece](const auto&) {
    if (self->cancelled_) return self->end(fail(Errc::kCancelled, "cancelled"));
    self->begin(piece);
  });
}

void Resyncs::Job::commit() {
  if (request_.report_only) return end({});
  parts_.store.commit(request_.object,
                      [self = shared_from_this()](const Result<WriteVerifier>& committed) {
                        if (!committed) return self->end(std::unexpected(committed.error()));
                        self->end({});
                      });
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
