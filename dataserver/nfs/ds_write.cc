#include "dataserver/nfs/ds_jobs.h"

namespace weft::ds {

using rpc::nfs4::Op;
using rpc::nfs4::StableHow;
using rpc::nfs4::Status;

void DsHandler::write(rpc::Compound& compound, rpc::nfs4::WriteArgs args, rpc::OpDone done) {
  Counters::Cell& counters = parts_.counters.mine();
  counters.writes.add();
  Begun begun = begin(Op::OP_WRITE, std::move(done));
  const layout::Handle* handle = current_object(compound);
  if (handle == nullptr) return fail_op(begun, Status::NFS4ERR_NOFILEHANDLE);
  if (!layout::may_write(handle->access)) {
    counters.refused.add();
    return fail_op(begun, Status::NFS4ERR_ACCESS);
  }
  auto job = std::make_unique<WriteJob>();
  counters.stream(*handle);
  job->handle = *handle;
  job->end = args.offset + args.size();  // the store refuses ranges that wrap
  job->token = parts_.writes.enter();
  job->op = std::move(begun);
  // The compound may have waited since PUTFH. Asked with the token in hand: a fence that is raised
  // after this waits until the write is over.
  if (!parts_.gate.still_admits(*handle)) {
    counters.refused.add();
    return fail_op(job->op, Status::NFS4ERR_ACCESS);
  }
  const auto wanted = static_cast<Stability>(args.stable);
  if (concerns_copies(*handle)) {
    if (parts_.duplication == nullptr) {
      return fail_op(job->op, Status::NFS4ERR_SERVERFAULT);
    }
    // They are sent as well as written: both want them in memory.
    if (auto moved = args.to_memory(); !moved) {
      return fail_op(job->op, rpc::nfs4::status_from(moved.error().code));
    }
    WritesInFlight::Token token = std::move(job->token);
    return parts_.duplication->write(
        *handle, args.offset, std::move(args.data), wanted, std::move(token),
        [this, job = std::move(job)](Result<WriteResult> result) mutable {
          write_done(std::move(job), std::move(result));
        });
  }
  auto written = [this, job = std::move(job)](Result<WriteResult> result) mutable {
    write_done(std::move(job), std::move(result));
  };
  parts_.store.write({.object = handle->object,
                      .offset = args.offset,
                      .data = std::move(args.data),
                      .piped = std::move(args.piped),
                      .wanted = wanted},
                     std::move(written));
}

void DsHandler::write_done(std::unique_ptr<WriteJob> job, Result<WriteResult> result) {
  job->token.reset();
  if (!result) {
    return fail_op(job->op, status_of(result.error(), job->handle));
  }
  const layout::Handle handle = job->handle;
  when_served(handle, [this, job = std::move(job), written = *result](Status status) mutable {
    if (status != Status::NFS4_OK) return fail_op(job->op, status);
    tell_write(std::move(job), written);
  });
}

void DsHandler::tell_write(std::unique_ptr<WriteJob> job, const WriteResult& result) {
  // The metadata server's own writes are no news to it; of a partner's, the partner tells.
  const bool tell = result.stability == Stability::kFileSync && result.bytes > 0 &&
                    job->handle.access == layout::Access::kReadWrite;
  if (!tell) return finish_write(std::move(job), result);
  parts_.counters.mine().size_reports.add();
  const WriteJob& what = *job;
  parts_.sizes.report(what.handle, what.end, parts_.clock.wall_ns(),
                      [this, job = std::move(job), written = result](Result<> told) mutable {
                        if (told) return finish_write(std::move(job), written);
                        fail_op(job->op, rpc::nfs4::status_from(told.error().code));
                      });
}

void DsHandler::finish_write(std::unique_ptr<WriteJob> job, const WriteResult& result) {
  parts_.counters.mine().write_bytes.add(result.bytes);
  const rpc::nfs4::WriteOk ok{.count = static_cast<std::uint32_t>(result.bytes),
                              .committed = static_cast<StableHow>(result.stability),
                              .verifier = result.verifier};
  answer(job->op, {Op::OP_WRITE, Status::NFS4_OK, ok, 0});
}

}  // namespace weft::ds
