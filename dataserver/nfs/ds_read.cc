#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <limits>

#include "dataserver/nfs/ds_jobs.h"
#include "dataserver/segments/segment_store.h"
#include "dataserver/store/block_sums.h"
#include "dataserver/store/failure.h"
#include "rpc/base/standing.h"

namespace weft::ds {

using rpc::nfs4::Op;
using rpc::nfs4::Status;

namespace {

constexpr std::chrono::milliseconds kRetry{5};
constexpr std::uint64_t kToTheEnd = std::numeric_limits<std::uint64_t>::max();

std::uint64_t zero_copy_bytes(const Payload& payload) {
  std::uint64_t bytes = 0;
  for (const Payload::Piece& piece : payload.pieces()) {
    if (std::holds_alternative<FileRange>(piece)) bytes += size_of(piece);
  }
  return bytes;
}

// Of the same object, behind what `to` has.
void append(ReadResult& to, ReadResult more) {
  if (to.payload.size() == 0) {
    to = std::move(more);
    return;
  }
  for (Payload::Piece& piece : more.payload.pieces()) to.payload.append(std::move(piece));
  to.object_end = more.object_end;
}

}  // namespace

void DsHandler::read(rpc::Compound& compound, const rpc::nfs4::ReadArgs& args, rpc::OpDone done) {
  Counters::Cell& counters = parts_.counters.mine();
  counters.reads.add();
  Begun begun = begin(Op::OP_READ, std::move(done));
  const layout::Handle* handle = current_object(compound);
  if (handle == nullptr) return fail_op(begun, Status::NFS4ERR_NOFILEHANDLE);
  if (!layout::may_read(handle->access)) {
    counters.refused.add();
    return fail_op(begun, Status::NFS4ERR_ACCESS);
  }
  auto job = std::make_unique<ReadJob>();
  counters.stream(*handle);
  job->handle = *handle;
  job->offset = args.offset;
  const std::uint64_t room = std::numeric_limits<std::uint64_t>::max() - args.offset;
  job->count =
      static_cast<std::uint32_t>(std::min<std::uint64_t>({args.count, compound.max_read, room}));
  job->to_memory = !compound.sends_files;
  job->op = std::move(begun);
  job->sums = handle->access == layout::Access::kCompare;
  job->for_partner = job->sums || handle->access == layout::Access::kFetch;
  if (job->sums && (parts_.pool == nullptr || args.count > kMaxSumRange)) {
    return fail_op(job->op, Status::NFS4ERR_INVAL);
  }
  if (parts_.segments != nullptr && HandleGate::is_clients(job->handle)) {
    parts_.segments->note_read(handle->client_id, handle->object, job->offset, job->count);
  }
  if (job->for_partner && parts_.duplication != nullptr) return read_for_partner(std::move(job));
  read_store(std::move(job));
}

// It may have bytes already that are still to be written here; and where the object ends counts
// too.
void DsHandler::read_for_partner(std::unique_ptr<ReadJob> job) {
  const ReadJob& what = *job;
  const auto waiting = std::make_shared<std::unique_ptr<ReadJob>>(std::move(job));
  parts_.duplication->when_local(what.handle.object, what.offset, kToTheEnd,
                                 [this, waiting] { read_store(std::move(*waiting)); });
}

void DsHandler::read_store(std::unique_ptr<ReadJob> job) {
  const ReadJob& what = *job;
  auto done = [this, job = std::move(job)](Result<ReadResult> result) mutable {
    read_done(std::move(job), std::move(result));
  };
  const bool of_client = !what.for_partner && what.handle.access != layout::Access::kControl;
  if (of_client && parts_.pool != nullptr &&
      !has_room(*parts_.pool, PoolShare::kReplies, what.count)) {
    return done(fail(Errc::kBusy, "memory is short for what clients read"));
  }
  const auto have = static_cast<std::uint32_t>(what.result.payload.size());
  // Copies are compared, and made, of what is on the disk.
  parts_.store.read({.object = what.handle.object,
                     .offset = what.offset + have,
                     .count = what.count - have,
                     .share = of_client ? PoolShare::kReplies : PoolShare::kServers,
                     .uncached = what.for_partner,
                     .to_memory = what.to_memory},
                    std::move(done));
}

void DsHandler::read_done(std::unique_ptr<ReadJob> job, Result<ReadResult> result) {
  if (result) {
    append(job->result, std::move(*result));
  } else if (result.error() == Errc::kBusy) {
    return read_later(std::move(job), result.error());
  } else if (!(result.error() == Errc::kNotFound) || job->for_partner) {
    return read_failed(std::move(job), result.error());
  }  // an object that was never written is all hole
  const std::uint64_t end = job->offset + job->result.payload.size();
  if (job->sums) return reply_sums(std::move(job));
  // The metadata server knows the size, and what is missing below it is a hole.
  const bool of_client = HandleGate::is_clients(job->handle);
  if (!of_client) return reply_read(*job, end >= job->result.object_end);
  // Where a client gets what it asked for, it comes again if it wants to know what follows.
  const bool full = job->count > 0 && job->result.payload.size() == job->count;
  if (full || end < job->result.object_end) return reply_read(*job, false);
  if (job->file_size) return read_past_end(std::move(job));
  parts_.counters.mine().size_queries.add();
  const layout::ObjectId object = job->handle.object;
  parts_.sizes.query(object, [this, job = std::move(job)](Result<std::uint64_t> size) mutable {
    if (!size) {
      return fail_op(job->op, rpc::nfs4::status_from(size.error().code));
    }
    // What lies between may have been written since it was read.
    const bool more = *size > job->offset + job->result.payload.size();
    job->file_size = *size;
    if (more) return read_store(std::move(job));
    read_past_end(std::move(job));
  });
}

// A right that was taken back meanwhile is not answered: the object may have been moved away and
// removed since, and what is missing is then no hole. What is sent from a file is read later still.
void DsHandler::reply_read(ReadJob& job, bool eof) {
  Counters::Cell& counters = parts_.counters.mine();
  if (!parts_.gate.still_admits(job.handle)) {
    counters.refused.add();
    return fail_op(job.op, Status::NFS4ERR_ACCESS);
  }
  Payload& payload = job.result.payload;
  (job.for_partner ? counters.partner_read_bytes : counters.read_bytes).add(payload.size());
  if (const std::uint64_t bytes = zero_copy_bytes(payload); bytes > 0) {
    counters.zero_copy_bytes.add(bytes);
    payload.read_files_while(
        [&gate = parts_.gate, handle = job.handle] { return gate.still_admits(handle); });
  }
  answer(job.op, {Op::OP_READ, Status::NFS4_OK, rpc::nfs4::ReadOk{eof, std::move(payload)}, 0});
}

void DsHandler::read_failed(std::unique_ptr<ReadJob> job, const Error& error) {
  const Status status = status_of(error, job->handle);
  // Where memory is short it is as short for the next file: that says nothing of this copy.
  const auto memory_short = [&] {
    return parts_.pool != nullptr && (!has_room(*parts_.pool, PoolShare::kReplies, job->count) ||
                                      !parts_.pool->allocate(std::max(job->count, 1U)));
  };
  const bool broken = failed_by_store(error) && !(error == Errc::kNotFound) &&
                      !(error == Errc::kBusy && memory_short());
  if (!broken || parts_.duplication == nullptr) {
    return fail_op(job->op, status);
  }
  const ReadJob& what = *job;
  if (status != Status::NFS4ERR_DELAY) {
    parts_.duplication->unreadable(what.handle, what.offset, what.count, [](bool) {});
    return fail_op(job->op, status);
  }
  // A client that is told to try again tries here, for ever.
  const bool of_client = !job->for_partner && what.handle.access != layout::Access::kControl;
  parts_.duplication->unreadable(
      what.handle, what.offset, what.count,
      [this, of_client, job = std::move(job)](bool left_out) mutable {
        const bool elsewhere = left_out && of_client;
        fail_op(job->op, elsewhere ? Status::NFS4ERR_ACCESS : Status::NFS4ERR_DELAY);
      });
}

void DsHandler::reply_sums(std::unique_ptr<ReadJob> job) {
  const auto bytes = job->result.payload.flatten();
  if (!bytes) {
    return fail_op(job->op, rpc::nfs4::status_from(bytes.error().code));
  }
  const std::uint64_t end = job->result.object_end;
  if (bytes->size() != bytes_within(end, job->offset, job->count)) {
    return fail_op(job->op, Status::NFS4ERR_DELAY);  // cut meanwhile
  }
  ObjectSums sums{end, job->offset + job->count, sum_blocks(*bytes)};
  const bool zeros =
      std::ranges::none_of(sums.blocks, [](const auto& sum) { return sum.has_value(); });
  job->result.payload = {};
  // Where something follows at once, as nearly always, that is found out by asking for it.
  if (!zeros || sums.next_data >= end) return send_sums(*job, sums);
  const layout::ObjectId object = job->handle.object;
  parts_.store.next_data(
      object, sums.next_data,
      [this, job = std::move(job), sums = std::move(sums)](const Result<DataRun>& run) mutable {
        if (run) sums.next_data = std::max(sums.next_data, run->begin);
        send_sums(*job, sums);
      });
}

void DsHandler::send_sums(ReadJob& job, const ObjectSums& made) {
  const auto sums = encode(made);
  auto buffer = parts_.pool->allocate(sums.size());
  if (!buffer) {
    return fail_op(job.op, rpc::nfs4::status_from(buffer.error().code));
  }
  std::ranges::copy(sums, buffer->data());
  job.result.payload.append(std::move(*buffer));
  reply_read(job, job.offset + job.count >= made.object_end);
}

// The read reached the object's end, once more after the file's size was asked for if that is
// beyond: what the file has after it is a hole.
void DsHandler::read_past_end(std::unique_ptr<ReadJob> job) {
  const std::uint64_t size = std::max(*job->file_size, job->result.object_end);
  const std::uint64_t have = job->offset + job->result.payload.size();
  const std::uint64_t want = job->offset + job->count;
  const std::uint64_t end = std::min(size, want);
  if (end > have) job->result.payload.append(ZeroRange{static_cast<std::size_t>(end - have)});
  reply_read(*job, want >= size);
}

void DsHandler::read_later(std::unique_ptr<ReadJob> job, const Error& error) {
  const TimePoint now = parts_.clock.now();
  if (job->deadline == TimePoint{}) job->deadline = now + kReadWait;
  if (now >= job->deadline) return read_failed(std::move(job), error);
  auto timer = std::make_unique<boost::asio::steady_timer>(IoRing::current()->context());
  timer->expires_after(kRetry);
  boost::asio::steady_timer& waiting = *timer;
  waiting.async_wait([this, timer = std::move(timer), job = std::move(job)](
                         const boost::system::error_code& /*never cancelled*/) mutable {
    read_store(std::move(job));
  });
}

}  // namespace weft::ds
