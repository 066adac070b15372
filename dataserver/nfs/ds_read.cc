#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <limits>

#include "dataserver/nfs/ds_jobs.h"
#include "dataserver/store/block_sums.h"

namespace weft::ds {

using rpc::nfs4::Op;
using rpc::nfs4::Status;

namespace {

constexpr std::chrono::milliseconds kMemoryRetry{5};
constexpr std::uint64_t kToTheEnd = std::numeric_limits<std::uint64_t>::max();

std::uint64_t zero_copy_bytes(const Payload& payload) {
  std::uint64_t bytes = 0;
  for (const Payload::Piece& piece : payload.pieces()) {
    if (std::holds_alternative<FileRange>(piece)) bytes += size_of(piece);
  }
  return bytes;
}

void reply(Counters::Cell& counters, ReadResult& result, bool eof, rpc::OpDone& done) {
  counters.read_bytes.add(result.payload.size());
  counters.zero_copy_bytes.add(zero_copy_bytes(result.payload));
  counters.running.subtract();
  done({Op::OP_READ, Status::NFS4_OK, rpc::nfs4::ReadOk{eof, std::move(result.payload)}, 0});
}

}  // namespace

void DsHandler::read(rpc::Compound& compound, const rpc::nfs4::ReadArgs& args, rpc::OpDone done) {
  Counters::Cell& counters = parts_.counters.mine();
  counters.reads.add();
  counters.running.add();
  const layout::Handle* handle = current_object(compound);
  if (handle == nullptr) return fail_op(Op::OP_READ, Status::NFS4ERR_NOFILEHANDLE, done);
  auto job = std::make_unique<ReadJob>();
  counters.stream(*handle);
  job->handle = *handle;
  job->offset = args.offset;
  const std::uint64_t room = std::numeric_limits<std::uint64_t>::max() - args.offset;
  job->count =
      static_cast<std::uint32_t>(std::min<std::uint64_t>({args.count, compound.max_read, room}));
  job->done = std::move(done);
  job->sums = handle->access == layout::Access::kCompare;
  job->for_partner = job->sums || handle->access == layout::Access::kMirror;
  if (job->sums && (parts_.pool == nullptr || args.count > kMaxSumRange)) {
    return fail_op(Op::OP_READ, Status::NFS4ERR_INVAL, job->done);
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
  // Copies are compared, and made, of what is on the disk.
  if (what.for_partner) {
    return parts_.store.read_uncached(what.handle.object, what.offset, what.count, std::move(done));
  }
  parts_.store.read(what.handle.object, what.offset, what.count, std::move(done));
}

void DsHandler::read_done(std::unique_ptr<ReadJob> job, Result<ReadResult> result) {
  if (result) {
    job->result = std::move(*result);
  } else if (result.error() == Errc::kBusy) {
    return wait_for_memory(std::move(job));
  } else if (!(result.error() == Errc::kNotFound) || job->for_partner) {
    return read_failed(*job, result.error());
  }  // an object that was never written is all hole
  const std::uint64_t end = job->offset + job->result.payload.size();
  Counters::Cell& counters = parts_.counters.mine();
  if (job->sums) return reply_sums(std::move(job));
  if (job->for_partner) {
    return reply(counters, job->result, end >= job->result.object_end, job->done);
  }
  if (end < job->result.object_end) return reply(counters, job->result, false, job->done);
  counters.size_queries.add();
  const layout::ObjectId object = job->handle.object;
  parts_.sizes.query(object, [this, job = std::move(job)](Result<std::uint64_t> size) mutable {
    if (!size) {
      return fail_op(Op::OP_READ, rpc::nfs4::status_from(size.error().code), job->done);
    }
    read_past_end(std::move(job), *size);
  });
}

void DsHandler::read_failed(ReadJob& job, const Error& error) {
  const bool broken = error == Errc::kIo || error == Errc::kCorrupt;
  if (broken && parts_.duplication != nullptr) {
    parts_.duplication->unreadable(job.handle, job.offset, job.count);
  }
  fail_op(Op::OP_READ, rpc::nfs4::status_from(error.code), job.done);
}

void DsHandler::reply_sums(std::unique_ptr<ReadJob> job) {
  const auto bytes = job->result.payload.flatten();
  if (!bytes) {
    return fail_op(Op::OP_READ, rpc::nfs4::status_from(bytes.error().code), job->done);
  }
  const std::uint64_t end = job->result.object_end;
  if (bytes->size() != bytes_within(end, job->offset, job->count)) {
    return fail_op(Op::OP_READ, Status::NFS4ERR_DELAY, job->done);  // cut meanwhile
  }
  const auto sums = encode(ObjectSums{end, sum_blocks(*bytes)});
  auto buffer = parts_.pool->allocate(sums.size());
  if (!buffer) {
    return fail_op(Op::OP_READ, rpc::nfs4::status_from(buffer.error().code), job->done);
  }
  std::ranges::copy(sums, buffer->data());
  ReadResult answer{.object_end = end};
  answer.payload.append(std::move(*buffer));
  reply(parts_.counters.mine(), answer, job->offset + bytes->size() >= end, job->done);
}

// The read reached the object's end: what the file has after it is a hole.
void DsHandler::read_past_end(std::unique_ptr<ReadJob> job, std::uint64_t file_size) {
  const std::uint64_t size = std::max(file_size, job->result.object_end);
  const std::uint64_t have = job->offset + job->result.payload.size();
  const std::uint64_t want = job->offset + job->count;
  const std::uint64_t end = std::min(size, want);
  if (end > have) job->result.payload.append(ZeroRange{static_cast<std::size_t>(end - have)});
  reply(parts_.counters.mine(), job->result, want >= size, job->done);
}

void DsHandler::wait_for_memory(std::unique_ptr<ReadJob> job) {
  const TimePoint now = parts_.clock.now();
  if (job->memory_deadline == TimePoint{}) job->memory_deadline = now + kMemoryWait;
  if (now >= job->memory_deadline) {
    return fail_op(Op::OP_READ, Status::NFS4ERR_DELAY, job->done);
  }
  auto timer = std::make_unique<boost::asio::steady_timer>(IoRing::current()->context());
  timer->expires_after(kMemoryRetry);
  boost::asio::steady_timer& waiting = *timer;
  waiting.async_wait([this, timer = std::move(timer), job = std::move(job)](
                         const boost::system::error_code& /*never cancelled*/) mutable {
    read_store(std::move(job));
  });
}

}  // namespace weft::ds
