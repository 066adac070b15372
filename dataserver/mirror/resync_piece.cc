// One piece of a job: hold, checksums, fetch, write, read back.
#include <algorithm>
#include <cstring>

#include "dataserver/mirror/resync_job.h"
#include "rpc/peer/keys.h"
#include "rpc/session/cluster_session.h"

namespace weft::ds {

using rpc::nfs4::CompoundResult;
using rpc::nfs4::Op;
using rpc::nfs4::Status;

namespace {

constexpr std::size_t kMaxReads = 12;  // in one compound; a session takes 16 operations

bool is_unreadable(const Error& error) { return error == Errc::kIo || error == Errc::kCorrupt; }

// Sums of which none is what is wanted.
BlockSums other_than(const BlockSums& wanted) {
  BlockSums other;
  for (const auto& block : wanted) {
    other.push_back(block ? std::nullopt : std::optional(BlockSum{}));
  }
  return other;
}

}  // namespace

// Holds what may be changed: the piece, or everything from it on.
void Resyncs::Job::begin(const PiecePtr& piece) {
  piece->hold.release();
  piece->token.reset();
  piece->run = 0;
  piece->fetching.clear();
  const ByteRange held{piece->range.begin, piece->whole_end ? kMaxEnd : piece->range.end};
  parts_.duplicator.locks().acquire(request_.object, held,
                                    [self = shared_from_this(), piece](RangeLocks::Hold hold) {
                                      piece->hold = std::move(hold);
                                      self->ask_sums(piece);
                                    });
}

// `answered` is called with every READ's result, or with NFS4ERR_NOENT.
void Resyncs::Job::ask_source(const PiecePtr& piece, layout::Access access,
                              std::vector<rpc::nfs4::ReadArgs> reads, Answered answered) {
  const layout::Handle handle{.access = access,
                              .key_id = rpc::peer::kHandleKeyId,
                              .ds_id = request_.source,
                              .object = request_.object,
                              .client_id = 0,
                              .object_epoch = epoch()};
  const auto sealed = parts_.duplicator.seal(handle);
  PartnerLink::Ops ops;
  ops.push_back({Op::OP_PUTFH, rpc::nfs4::PutFhArgs{rpc::nfs4::FileHandle(sealed)}});
  for (auto& read : reads) ops.push_back({Op::OP_READ, read});
  parts_.duplicator.link(request_.source)
      .patient_call(std::move(ops), [self = shared_from_this(), piece,
                                     answered](Result<CompoundResult> result) {
        if (!result) return self->again(piece, result.error());
        if (result->status == Status::NFS4ERR_ACCESS) {
          return self->end(fail(Errc::kFenced, "the source's object is fenced above the job"));
        }
        if (result->status != Status::NFS4_OK && result->status != Status::NFS4ERR_NOENT) {
          return self->again(piece, rpc::outcome_of(*result).error());
        }
        (self.get()->*answered)(piece, *result);
      });
}

void Resyncs::Job::ask_sums(const PiecePtr& piece) {
  ask_source(piece, layout::Access::kCompare,
             {{.stateid = {},
               .offset = piece->range.begin,
               .count = static_cast<std::uint32_t>(piece->range.end - piece->range.begin)}},
             &Job::got_sums);
}

void Resyncs::Job::got_sums(const PiecePtr& piece, CompoundResult& result) {
  const std::uint64_t begin = piece->range.begin;
  const std::uint64_t size = piece->range.end - begin;
  piece->wanted = {};
  if (const auto* ok = result.get<rpc::nfs4::ReadOk>(1)) {
    auto bytes = ok->data.flatten();
    if (!bytes) return end(pass(bytes));
    auto sums = decode_sums(*bytes, begin, size);
    if (!sums) return end(pass(sums));
    piece->wanted = std::move(*sums);
  } else if (result.status != Status::NFS4ERR_NOENT) {
    return end(fail(Errc::kProtocol, "the source answered with nothing"));
  }
  piece->bytes = bytes_within(piece->wanted.object_end, begin, size);
  piece->source_ends = piece->range.end >= piece->wanted.object_end;
  source_ends_at(piece->wanted.object_end);
  if (piece->source_ends && !piece->whole_end) {
    piece->whole_end = true;  // once more, with nothing that could move an end going on
    return this->begin(piece);
  }
  compare(piece);
}

// What cannot be read is nothing that is wanted; writing it anew may cure the disk.
void Resyncs::Job::read_here(const PiecePtr& piece, std::move_only_function<void(BlockSums)> then) {
  if (piece->bytes == 0) return then({});
  parts_.store.read_uncached(
      request_.object, piece->range.begin, static_cast<std::uint32_t>(piece->bytes),
      [self = shared_from_this(), piece, then = std::move(then)](Result<ReadResult> read) mutable {
        if (!read && read.error() == Errc::kNotFound) return then({});
        if (!read && read.error() == Errc::kBusy) return self->again(piece, read.error());
        if (!read && is_unreadable(read.error())) return then(other_than(piece->wanted.blocks));
        if (!read) return self->end(pass(read));
        auto bytes = read->payload.flatten();
        if (!bytes) return self->end(pass(bytes));
        bytes->resize(piece->bytes);  // what is beyond the end reads as zeros
        then(sum_blocks(*bytes));
      });
}

void Resyncs::Job::compare(const PiecePtr& piece) {
  read_here(piece, [self = shared_from_this(), piece](const BlockSums& have) {
    piece->runs = differences(piece->wanted.blocks, have, piece->bytes);
    for (const DiffRun& run : piece->runs) {
      self->differs(piece->range.begin + run.begin, run.end - run.begin);
    }
    if (self->request_.report_only) return self->settle_end(piece);
    self->repair(piece);
  });
}

// Asked before anything is changed. False: the job has ended.
bool Resyncs::Job::admitted(const PiecePtr& piece) {
  if (piece->token != nullptr) return true;
  auto token = parts_.admit(request_.object, epoch());
  if (token) {
    piece->token = std::move(*token);
  } else {
    end(pass(token));
  }
  return token.has_value();
}

// A run of zeros, or as many others as one request fetches.
void Resyncs::Job::repair(const PiecePtr& piece) {
  if (piece->run == piece->runs.size()) return settle_end(piece);
  if (piece->runs[piece->run].zeros) return punch(piece, piece->runs[piece->run]);
  fetch(piece);
}

void Resyncs::Job::punch(const PiecePtr& piece, const DiffRun& run) {
  if (!admitted(piece)) return;
  const std::uint64_t size = run.end - run.begin;
  parts_.store.punch(request_.object, piece->range.begin + run.begin, size,
                     [self = shared_from_this(), piece, size](const Result<>& done) {
                       if (!done) return self->end(std::unexpected(done.error()));
                       self->count(&Progress::punched_bytes, size);
                       ++piece->run;
                       self->repair(piece);
                     });
}

void Resyncs::Job::fetch(const PiecePtr& piece) {
  piece->token.reset();  // a fence does not wait for the source
  piece->fetching.clear();
  std::vector<rpc::nfs4::ReadArgs> reads;
  for (std::size_t i = piece->run; i < piece->runs.size() && reads.size() < kMaxReads; ++i) {
    const DiffRun& run = piece->runs[i];
    if (run.zeros) break;
    piece->fetching.push_back(run);
    reads.push_back({.stateid = {},
                     .offset = piece->range.begin + run.begin,
                     .count = static_cast<std::uint32_t>(run.end - run.begin)});
  }
  ask_source(piece, layout::Access::kFetch, std::move(reads), &Job::fetched);
}

void Resyncs::Job::fetched(const PiecePtr& piece, CompoundResult& result) {
  piece->came.clear();
  for (std::size_t i = 0; i < piece->fetching.size(); ++i) {
    const DiffRun& run = piece->fetching[i];
    const std::uint64_t size = run.end - run.begin;
    const auto* ok = result.get<rpc::nfs4::ReadOk>(i + 1);
    if (ok == nullptr || ok->data.size() != size) {
      return again(piece, {Errc::kBusy, "the source was cut meanwhile"});
    }
    auto bytes = ok->data.flatten();
    if (!bytes) return end(pass(bytes));
    auto buffer = parts_.pool.allocate(size);
    if (!buffer) return again(piece, buffer.error());
    std::ranges::copy(*bytes, buffer->data());
    // These are what is to be here, also where they are newer than the checksums.
    std::ranges::copy(sum_blocks(*bytes),
                      piece->wanted.blocks.begin() + static_cast<long>(run.begin / kSumBlock));
    piece->came.push_back(std::move(*buffer));
    rate_.use(size);
  }
  if (admitted(piece)) write(piece, 0);
}

void Resyncs::Job::write(const PiecePtr& piece, std::size_t part) {
  if (part == piece->came.size()) {
    piece->run += part;
    return repair(piece);
  }
  const std::uint64_t size = piece->came[part].size();
  std::vector<Buffer> data;
  data.push_back(std::move(piece->came[part]));
  parts_.store.write(
      request_.object, piece->range.begin + piece->fetching[part].begin, std::move(data),
      Stability::kUnstable,
      [self = shared_from_this(), piece, part, size](const Result<WriteResult>& written) {
        if (!written) return self->end(std::unexpected(written.error()));
        self->count(&Progress::copied_bytes, size);
        self->write(piece, part + 1);
      });
}

// At the source's end the object here ends as well. Everything from the piece on is held, so no
// write that is brought here can be beyond that end, and not at the source.
void Resyncs::Job::settle_end(const PiecePtr& piece) {
  if (!piece->source_ends) return verify(piece);
  const std::uint64_t end_there = piece->wanted.object_end;
  parts_.store.stat(request_.object, [self = shared_from_this(), piece,
                                      end_there](const Result<ObjectStat>& found) {
    if (!found && !(found.error() == Errc::kNotFound)) {
      return self->end(std::unexpected(found.error()));
    }
    const std::uint64_t end_here = found ? found->size : 0;
    // What is neither there nor within the extents is not ours to cut.
    std::uint64_t wanted = end_there;
    if (end_here > end_there && !self->extents_.covers({end_there, end_here})) {
      wanted = std::max(end_there, piece->range.begin);
      if (end_here <= wanted || !self->extents_.covers({wanted, end_here})) wanted = end_here;
    } else if (end_here < end_there && piece->bytes == 0) {
      wanted = end_here;
    }
    if (wanted == end_here) return self->verify(piece);
    if (self->request_.report_only) {
      const std::uint64_t shorter = std::min(end_here, end_there);
      self->differs(shorter, std::max(end_here, end_there) - shorter);
      return self->piece_done(piece);
    }
    if (!self->admitted(piece)) return;
    self->parts_.store.truncate(self->request_.object, wanted,
                                [self, piece](const Result<ObjectStat>& cut) {
                                  if (!cut) return self->end(std::unexpected(cut.error()));
                                  self->verify(piece);
                                });
  });
}

// What is here now, read back, is what is wanted.
void Resyncs::Job::verify(const PiecePtr& piece) {
  if (piece->runs.empty() || request_.report_only) return piece_done(piece);
  read_here(piece, [self = shared_from_this(), piece](const BlockSums& have) {
    if (have == piece->wanted.blocks) return self->piece_done(piece);
    self->again(piece, {Errc::kCorrupt, "what was written is not what is read back"});
  });
}

}  // namespace weft::ds
