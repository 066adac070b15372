#include "dataserver/mirror/resync_job.h"

#include <spdlog/spdlog.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "dataserver/mirror/block_diff.h"
#include "rpc/control/keys.h"
#include "rpc/session/cluster_session.h"

namespace weft::ds {

using rpc::nfs4::CompoundResult;
using rpc::nfs4::Op;
using rpc::nfs4::Status;

namespace {

constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 20;
constexpr int kMaxTries = 8;  // of one piece, when it does not verify
constexpr int kMaxSourceFailures = 20;
constexpr std::chrono::milliseconds kSourceRest{500};

bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
  if (a.size() != b.size()) return false;
  return XXH128_isEqual(XXH3_128bits(a.data(), a.size()), XXH3_128bits(b.data(), b.size())) != 0;
}

}  // namespace

struct Resyncs::Job::Piece {
  ByteRange range;
  bool whole_end = false;  // the hold goes to the end: the object may be cut or extended
  RangeLocks::Hold hold;
  std::vector<std::byte> wanted;  // what the source has, short at its end
  bool source_ends = false;
  std::uint64_t end_here = 0;
  std::vector<DiffRun> runs;
  int tries = 0;
};

Resyncs::Job::Job(Parts& parts, rpc::control::Resync request, IoRing& ring,
                  std::function<void()> over)
    : parts_(parts),
      request_(std::move(request)),
      ring_(ring),
      over_(std::move(over)),
      bucket_(request_.bytes_per_second, parts.clock.now()),
      timer_(ring.context()) {
  for (const rpc::control::Extent& extent : request_.extents) {
    const std::uint64_t begin = std::min(extent.offset, kMaxEnd);
    extents_.add({begin, begin + std::min(extent.length, kMaxEnd - begin)});
  }
  progress_.state = Progress::State::kRunning;
  for (const ByteRange& range : extents_.extents()) {
    progress_.total_bytes += range.end - range.begin;
  }
}

void Resyncs::Job::start() {
  auto begin = [self = shared_from_this()](Result<> fenced) {
    self->ring_.post([self, fenced = std::move(fenced)]() mutable {
      if (!fenced) return self->end(std::move(fenced));
      self->next();
    });
  };
  if (request_.least_epoch == 0) return begin({});
  parts_.fence(request_.object, request_.least_epoch, std::move(begin));
}

Resyncs::Job::Progress Resyncs::Job::progress() const {
  const std::lock_guard lock(mutex_);
  return progress_;
}

void Resyncs::Job::cancel(std::move_only_function<void()> done) {
  cancelled_ = true;
  {
    const std::lock_guard lock(mutex_);
    if (progress_.state == Progress::State::kRunning) {
      waiting_.push_back(std::move(done));
      return;
    }
  }
  done();
}

void Resyncs::Job::next() {
  if (cancelled_) return end(fail(Errc::kCancelled, "cancelled"));
  const Nanoseconds wait = bucket_.wait(parts_.clock.now());
  if (wait.count() > 0) {
    timer_.expires_after(std::min<Nanoseconds>(wait, std::chrono::milliseconds(200)));
    timer_.async_wait([self = shared_from_this()](const auto&) { self->next(); });
    return;
  }
  const auto& all = extents_.extents();
  const auto found = std::ranges::upper_bound(all, at_, {}, &ByteRange::end);
  if (found == all.end() || at_source_end_) return commit();
  auto piece = std::make_shared<Piece>();
  const std::uint64_t first = std::max(at_, found->begin);
  piece->range = {first, std::min(found->end, (first / kPieceBytes + 1) * kPieceBytes)};
  begin(piece);
}

// Holds what may be changed: the piece, or everything from it on.
void Resyncs::Job::begin(const PiecePtr& piece) {
  piece->hold.release();
  const ByteRange held{piece->range.begin, piece->whole_end ? kMaxEnd : piece->range.end};
  parts_.duplicator.locks().acquire(request_.object, held,
                                    [self = shared_from_this(), piece](RangeLocks::Hold hold) {
                                      piece->hold = std::move(hold);
                                      self->read_source(piece);
                                    });
}

void Resyncs::Job::read_source(const PiecePtr& piece) {
  const layout::Handle handle{.access = layout::Access::kMirror,
                              .key_id = rpc::control::kHandleKeyId,
                              .ds_id = request_.source,
                              .object = request_.object,
                              .client_id = 0,
                              .object_epoch = std::numeric_limits<std::uint32_t>::max(),
                              .client_epoch = std::numeric_limits<std::uint32_t>::max()};
  const auto sealed = parts_.duplicator.seal(handle);
  PartnerLink::Ops ops;
  ops.push_back({Op::OP_PUTFH, rpc::nfs4::PutFhArgs{rpc::nfs4::FileHandle(sealed)}});
  ops.push_back({Op::OP_READ, rpc::nfs4::ReadArgs{.stateid = {},
                                                  .offset = piece->range.begin,
                                                  .count = static_cast<std::uint32_t>(
                                                      piece->range.end - piece->range.begin)}});
  parts_.duplicator.link(request_.source)
      .patient_call(std::move(ops),
                    [self = shared_from_this(), piece](Result<CompoundResult> result) mutable {
                      self->source_read(piece, std::move(result));
                    });
}

void Resyncs::Job::source_read(const PiecePtr& piece, Result<CompoundResult> result) {
  piece->wanted.clear();
  piece->source_ends = false;
  if (result && result->status == Status::NFS4ERR_NOENT) {
    piece->source_ends = true;
  } else if (auto* ok = result ? result->get<rpc::nfs4::ReadOk>(1) : nullptr) {
    auto bytes = ok->data.flatten();
    if (!bytes) return end(pass(bytes));
    piece->wanted = std::move(*bytes);
    piece->source_ends = ok->eof;
    if (piece->wanted.size() > piece->range.end - piece->range.begin) {
      return end(fail(Errc::kProtocol, "the source answered with more than was asked"));
    }
    if (!ok->eof) piece->range.end = piece->range.begin + piece->wanted.size();
    if (piece->wanted.empty() && !ok->eof) {
      return end(fail(Errc::kProtocol, "the source answered with nothing"));
    }
  } else {
    return source_failed(piece, result ? rpc::outcome_of(*result).error() : result.error());
  }
  if (piece->source_ends && !piece->whole_end) {
    piece->whole_end = true;  // once more, with nothing that could move an end going on
    return begin(piece);
  }
  compare(piece);
}

// The source may be away for a moment; nothing is held meanwhile.
void Resyncs::Job::source_failed(const PiecePtr& piece, const Error& why) {
  piece->hold.release();
  if (cancelled_) return end(fail(Errc::kCancelled, "cancelled"));
  if (++source_failures_ > kMaxSourceFailures) return end(std::unexpected(why));
  timer_.expires_after(kSourceRest);
  timer_.async_wait([self = shared_from_this()](const auto&) { self->next(); });
}

void Resyncs::Job::read_here(const PiecePtr& piece,
                             std::move_only_function<void(std::vector<std::byte>)> then) {
  const auto count = static_cast<std::uint32_t>(piece->range.end - piece->range.begin);
  parts_.store.read(
      request_.object, piece->range.begin, count,
      [self = shared_from_this(), piece, then = std::move(then)](Result<ReadResult> read) mutable {
        piece->end_here = 0;
        if (!read && read.error() == Errc::kNotFound) return then({});
        if (!read) return self->end(pass(read));
        piece->end_here = read->object_end;
        auto bytes = read->payload.flatten();
        if (!bytes) return self->end(pass(bytes));
        then(std::move(*bytes));
      });
}

void Resyncs::Job::compare(const PiecePtr& piece) {
  read_here(piece, [self = shared_from_this(), piece](const std::vector<std::byte>& have) {
    piece->runs = differences(piece->wanted, have);
    self->repair(piece, 0);
  });
}

void Resyncs::Job::repair(const PiecePtr& piece, std::size_t run) {
  if (run == piece->runs.size()) return settle_end(piece);
  const DiffRun what = piece->runs[run];
  const std::uint64_t at = piece->range.begin + what.begin;
  const std::uint64_t size = what.end - what.begin;
  auto then = [self = shared_from_this(), piece, run](const Result<>& done) {
    if (!done) return self->end(std::unexpected(done.error()));
    self->repair(piece, run + 1);
  };
  if (what.zeros) {
    {
      const std::lock_guard lock(mutex_);
      progress_.punched_bytes += size;
    }
    return parts_.store.punch(request_.object, at, size, std::move(then));
  }
  auto buffer = parts_.pool.allocate(size);
  if (!buffer) return end(pass(buffer));
  std::memcpy(buffer->data(), piece->wanted.data() + what.begin, size);
  std::vector<Buffer> data;
  data.push_back(std::move(*buffer));
  parts_.store.write(request_.object, at, std::move(data), Stability::kUnstable,
                     [self = shared_from_this(), size,
                      then = std::move(then)](const Result<WriteResult>& written) mutable {
                       if (!written) return then(std::unexpected(written.error()));
                       {
                         const std::lock_guard lock(self->mutex_);
                         self->progress_.copied_bytes += size;
                       }
                       then({});
                     });
}

// At the source's end the object here ends as well. Everything from the piece on is held, so no
// write that is brought here can be beyond that end, and not at the source.
void Resyncs::Job::settle_end(const PiecePtr& piece) {
  if (!piece->source_ends) return verify(piece);
  const std::uint64_t end_there = piece->range.begin + piece->wanted.size();
  parts_.store.stat(request_.object, [self = shared_from_this(), piece,
                                      end_there](const Result<ObjectStat>& found) {
    if (!found && !(found.error() == Errc::kNotFound)) {
      return self->end(std::unexpected(found.error()));
    }
    const std::uint64_t end_here = found ? found->size : 0;
    const bool longer = end_here > end_there && self->extents_.covers({end_there, end_here});
    const bool shorter = end_here < end_there && !piece->wanted.empty();
    if (!longer && !shorter) return self->verify(piece);
    self->parts_.store.truncate(self->request_.object, end_there,
                                [self, piece](const Result<ObjectStat>& cut) {
                                  if (!cut) return self->end(std::unexpected(cut.error()));
                                  self->verify(piece);
                                });
  });
}

// What is here now, read back, is what the source sent.
void Resyncs::Job::verify(const PiecePtr& piece) {
  if (piece->runs.empty()) return piece_done(piece);
  read_here(piece, [self = shared_from_this(), piece](std::vector<std::byte> have) {
    have.resize(piece->wanted.size());  // a hole at the end
    if (same(have, piece->wanted)) return self->piece_done(piece);
    if (++piece->tries >= kMaxTries) {
      return self->end(fail(Errc::kCorrupt, "what was written is not what is read back"));
    }
    self->begin(piece);
  });
}

void Resyncs::Job::piece_done(const PiecePtr& piece) {
  piece->hold.release();
  source_failures_ = 0;
  const std::uint64_t size = piece->range.end - piece->range.begin;
  bucket_.use(size);
  at_ = piece->range.end;
  at_source_end_ = piece->source_ends;
  {
    const std::lock_guard lock(mutex_);
    progress_.compared_bytes += size;
    progress_.next_offset = at_;
  }
  // Not from within: pieces that need no waiting would nest.
  ring_.post([self = shared_from_this()] { self->next(); });
}

void Resyncs::Job::commit() {
  parts_.store.commit(request_.object,
                      [self = shared_from_this()](const Result<WriteVerifier>& committed) {
                        if (!committed) return self->end(std::unexpected(committed.error()));
                        self->end({});
                      });
}

void Resyncs::Job::end(Result<> result) {
  std::vector<std::move_only_function<void()>> waiting;
  {
    const std::lock_guard lock(mutex_);
    if (progress_.state != Progress::State::kRunning) return;
    progress_.state = result ? Progress::State::kDone : Progress::State::kFailed;
    if (!result) progress_.error = result.error().describe();
    waiting.swap(waiting_);
  }
  if (result) {
    spdlog::info("event=resync_done job={} object={} copied={} compared={}", request_.job,
                 layout::to_string(request_.object), progress().copied_bytes,
                 progress().compared_bytes);
  } else {
    spdlog::warn("event=resync_failed job={} object={} next={} error=\"{}\"", request_.job,
                 layout::to_string(request_.object), at_, result.error().describe());
  }
  over_();
  for (auto& done : waiting) done();
}

}  // namespace weft::ds
