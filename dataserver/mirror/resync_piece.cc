// One piece of a job: hold, checksums, fetch, write, read back.
#include <algorithm>
#include <cstring>
#include <functional>

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

Task<Resyncs::Job::Step<>> Resyncs::Job::attempt(Piece& piece) {
  if (auto asked = co_await hold_and_ask(piece); !asked) co_return asked;
  if (piece.source_ends && !piece.whole_end) {
    piece.whole_end = true;  // once more, with nothing that could move an end going on
    if (auto asked = co_await hold_and_ask(piece); !asked) co_return asked;
  }
  // First: a write into a block that goes on behind it needs what is there, which may be bad.
  if (!request_.report_only) {
    if (auto cut = co_await settle_end(piece, Ends::kCutOnly); !cut) co_return cut;
  }
  const auto have = co_await read_here(piece);
  if (!have) co_return std::unexpected(have.error());
  piece.runs = differences(piece.wanted.blocks, *have, piece.bytes);
  for (const DiffRun& run : piece.runs) differs(piece.range.begin + run.begin, run.end - run.begin);
  if (!request_.report_only) {
    if (auto repaired = co_await repair(piece); !repaired) co_return repaired;
  }
  if (auto settled = co_await settle_end(piece, Ends::kBoth); !settled) co_return settled;
  co_return co_await verify(piece);
}

Task<Resyncs::Job::Step<>> Resyncs::Job::hold_and_ask(Piece& piece) {
  piece.hold.release();
  const std::uint64_t begin = piece.range.begin;
  const std::uint64_t size = piece.range.end - begin;
  const ByteRange held{begin, piece.whole_end ? kMaxEnd : piece.range.end};
  piece.hold = co_await call<RangeLocks::Hold>(flow_, [&](auto done) {
    parts_.duplicator.locks().acquire(request_.object, held, std::move(done));
  });
  auto result = co_await ask_source(
      layout::Access::kCompare,
      {{.stateid = {}, .offset = begin, .count = static_cast<std::uint32_t>(size)}});
  if (!result) co_return std::unexpected(result.error());
  piece.wanted = {};
  piece.none = result->status == Status::NFS4ERR_NOENT;
  if (const auto* ok = result->get<rpc::nfs4::ReadOk>(1)) {
    auto bytes = ok->data.flatten();
    if (!bytes) co_return over(bytes.error());
    auto sums = decode_sums(*bytes, begin, size);
    if (!sums) co_return over(sums.error());
    piece.wanted = std::move(*sums);
  } else if (!piece.none) {
    co_return over({Errc::kProtocol, "the source answered with nothing"});
  }
  piece.bytes = bytes_within(piece.wanted.object_end, begin, size);
  piece.source_ends = piece.range.end >= piece.wanted.object_end;
  source_ends_at(piece.wanted.object_end);
  co_return {};
}

Task<Resyncs::Job::Step<CompoundResult>> Resyncs::Job::ask_source(layout::Access access,
                                                                  Reads reads) {
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
  auto result = co_await call<Result<CompoundResult>>(flow_, [&](auto done) {
    parts_.duplicator.link(request_.source).patient_call(std::move(ops), std::move(done));
  });
  if (!result) co_return again(result.error());
  if (result->status == Status::NFS4ERR_ACCESS) {
    co_return over({Errc::kFenced, "the source's object is fenced above the job"});
  }
  if (result->status == Status::NFS4ERR_IO) {
    co_return source_fails(rpc::outcome_of(*result).error());
  }
  if (result->status != Status::NFS4_OK && result->status != Status::NFS4ERR_NOENT) {
    co_return again(rpc::outcome_of(*result).error());
  }
  co_return std::move(*result);
}

// What cannot be read is nothing that is wanted; writing it anew may cure the disk.
Task<Resyncs::Job::Step<BlockSums>> Resyncs::Job::read_here(const Piece& piece) {
  if (piece.bytes == 0) co_return BlockSums{};
  auto read = co_await call<Result<ReadResult>>(flow_, [&](auto done) {
    parts_.store.read({.object = request_.object,
                       .offset = piece.range.begin,
                       .count = static_cast<std::uint32_t>(piece.bytes),
                       .uncached = true},
                      std::move(done));
  });
  if (!read && read.error() == Errc::kNotFound) co_return BlockSums{};
  if (!read && read.error() == Errc::kBusy) co_return again(read.error());
  if (!read && is_unreadable(read.error())) {
    if (!request_.report_only) co_return other_than(piece.wanted.blocks);
    tell_unreadable(piece);
    co_return over(read.error());
  }
  if (!read) co_return over(read.error());
  auto bytes = read->payload.flatten();
  if (!bytes) co_return over(bytes.error());
  bytes->resize(piece.bytes);  // what is beyond the end reads as zeros
  co_return sum_blocks(*bytes);
}

// As when a client reads it. The job ends whatever the answer is, so it is not waited for.
void Resyncs::Job::tell_unreadable(const Piece& piece) {
  layout::Handle handle{.ds_id = parts_.own_id(), .object = request_.object};
  handle.object_epoch = epoch();
  parts_.duplicator.unreadable(handle, piece.range.begin, piece.bytes, [](bool /*left_out*/) {});
}

Resyncs::Job::Step<> Resyncs::Job::admit(Piece& piece) {
  if (piece.token != nullptr) return {};
  auto token = parts_.admit(request_.object, epoch());
  if (!token) return over(token.error());
  piece.token = std::move(*token);
  return {};
}

// A run of zeros, or as many others as one request fetches.
Task<Resyncs::Job::Step<>> Resyncs::Job::repair(Piece& piece) {
  for (auto run = piece.runs.begin(); run != piece.runs.end();) {
    if (run->zeros) {
      if (auto punched = co_await punch(piece, *run); !punched) co_return punched;
      ++run;
      continue;
    }
    const auto most = std::min<std::ptrdiff_t>(piece.runs.end() - run, kMaxReads);
    const auto last = std::find_if(run, run + most, std::mem_fn(&DiffRun::zeros));
    if (auto fetched = co_await fetch(piece, {run, last}); !fetched) co_return fetched;
    run = last;
  }
  co_return {};
}

Task<Resyncs::Job::Step<>> Resyncs::Job::punch(Piece& piece, const DiffRun& run) {
  if (auto may = admit(piece); !may) co_return may;
  const std::uint64_t size = run.end - run.begin;
  const auto done = co_await call<Result<>>(flow_, [&](auto punched) {
    parts_.store.punch(request_.object, piece.range.begin + run.begin, size, std::move(punched));
  });
  if (!done) co_return over(done.error());
  count(&Progress::punched_bytes, size);
  co_return {};
}

Task<Resyncs::Job::Step<>> Resyncs::Job::fetch(Piece& piece, std::span<const DiffRun> runs) {
  piece.token.reset();  // a fence does not wait for the source
  Reads reads;
  for (const DiffRun& run : runs) {
    reads.push_back({.stateid = {},
                     .offset = piece.range.begin + run.begin,
                     .count = static_cast<std::uint32_t>(run.end - run.begin)});
  }
  auto result = co_await ask_source(layout::Access::kFetch, std::move(reads));
  if (!result) co_return std::unexpected(result.error());
  auto came = take(piece, runs, *result);
  if (!came) co_return std::unexpected(came.error());
  if (auto may = admit(piece); !may) co_return may;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::uint64_t size = (*came)[i].size();
    std::vector<Buffer> data;
    data.push_back(std::move((*came)[i]));
    const auto written = co_await call<Result<WriteResult>>(flow_, [&](auto done) {
      parts_.store.write(request_.object, piece.range.begin + runs[i].begin, std::move(data),
                         Stability::kUnstable, std::move(done));
    });
    if (!written) co_return over(written.error());
    if (written->verifier != verifier_) co_return over(lost());
    count(&Progress::copied_bytes, size);
  }
  co_return {};
}

Resyncs::Job::Step<std::vector<Buffer>> Resyncs::Job::take(Piece& piece,
                                                           std::span<const DiffRun> runs,
                                                           CompoundResult& result) {
  std::vector<Buffer> came;
  for (const DiffRun& run : runs) {
    const std::uint64_t size = run.end - run.begin;
    const auto* ok = result.get<rpc::nfs4::ReadOk>(came.size() + 1);
    if (ok == nullptr || ok->data.size() != size) {
      return again({Errc::kBusy, "the source was cut meanwhile"});
    }
    auto bytes = ok->data.flatten();
    if (!bytes) return over(bytes.error());
    auto buffer = parts_.pool.allocate(size);
    if (!buffer) return again(buffer.error());
    std::ranges::copy(*bytes, buffer->data());
    // These are what is to be here, also where they are newer than the checksums.
    std::ranges::copy(sum_blocks(*bytes),
                      piece.wanted.blocks.begin() + static_cast<long>(run.begin / kSumBlock));
    came.push_back(std::move(*buffer));
    rate_.use(size);
  }
  return came;
}

// At the source's end the object here ends as well. Everything from the piece on is held, so no
// write that is brought here can be beyond that end, and not at the source.
Task<Resyncs::Job::Step<>> Resyncs::Job::settle_end(Piece& piece, Ends ends) {
  if (!piece.source_ends) co_return {};
  const auto found = co_await call<Result<ObjectStat>>(
      flow_, [&](auto done) { parts_.store.stat(request_.object, std::move(done)); });
  if (!found && found.error() != Errc::kNotFound) co_return over(found.error());
  const std::uint64_t end_there = piece.wanted.object_end;
  const std::uint64_t end_here = found ? found->size : 0;
  if (ends == Ends::kCutOnly && end_here <= end_there) co_return {};
  // What is neither there nor within the extents is not ours to cut, nor what is before the piece:
  // of one that was left the source may have ended before this one. What other servers hold in
  // between is nothing to keep.
  std::uint64_t wanted = end_there;
  if (end_here > end_there) {
    wanted = std::max(end_there, held_.last(piece.range.begin));
    const std::uint64_t from = held_.next(wanted);
    if (end_here <= wanted || (from < end_here && !extents_.covers({from, end_here}))) {
      wanted = end_here;
    }
  } else if (end_here < end_there && piece.bytes == 0) {
    wanted = end_here;
  }
  if (wanted == end_here) {
    // An object of no bytes is one: a copy without is taken for one that has lost it.
    const bool empty = !found && !piece.none && end_there == 0 && !request_.report_only;
    if (empty) co_return co_await make_empty(piece);
    co_return {};
  }
  if (request_.report_only) {
    const std::uint64_t shorter = std::min(end_here, end_there);
    differs(shorter, std::max(end_here, end_there) - shorter);
    co_return {};
  }
  // A copy that missed something may be of an object that was never written since. Of two that are
  // current, the one without object has lost it, perhaps while this job went on.
  if (piece.none && request_.least_epoch == 0 && wanted < end_here) {
    co_return over({Errc::kIo, "the source has no object, of which there are bytes here"});
  }
  if (auto may = admit(piece); !may) co_return may;
  co_return co_await cut_to(wanted);
}

Task<Resyncs::Job::Step<>> Resyncs::Job::cut_to(std::uint64_t end) {
  const auto cut = co_await call<Result<ObjectStat>>(
      flow_, [&](auto done) { parts_.store.truncate(request_.object, end, std::move(done)); });
  if (!cut) co_return over(cut.error());
  co_return {};
}

// A cut to nothing makes no object.
Task<Resyncs::Job::Step<>> Resyncs::Job::make_empty(Piece& piece) {
  if (auto may = admit(piece); !may) co_return may;
  if (auto made = co_await cut_to(1); !made) co_return made;
  co_return co_await cut_to(0);
}

// What is here now, read back, is what is wanted.
Task<Resyncs::Job::Step<>> Resyncs::Job::verify(const Piece& piece) {
  if (piece.runs.empty() || request_.report_only) co_return {};
  const auto have = co_await read_here(piece);
  if (!have) co_return std::unexpected(have.error());
  if (*have == piece.wanted.blocks) co_return {};
  co_return again({Errc::kCorrupt, "what was written is not what is read back"});
}

}  // namespace weft::ds
