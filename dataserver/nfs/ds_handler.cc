#include "dataserver/nfs/ds_handler.h"

#include <spdlog/spdlog.h>

#include <limits>

#include "dataserver/nfs/ds_jobs.h"

namespace weft::ds {

using rpc::nfs4::Op;
using rpc::nfs4::Status;

namespace {

TimedOp timed(Op op) {
  if (op == Op::OP_READ) return TimedOp::kRead;
  return op == Op::OP_WRITE ? TimedOp::kWrite : TimedOp::kCommit;
}

}  // namespace

const layout::Handle* current_object(const rpc::Compound& compound) {
  return std::any_cast<layout::Handle>(&compound.scratch);
}

void DsHandler::execute(rpc::Compound& compound, rpc::nfs4::OpArgs op, rpc::OpDone done) {
  switch (op.op) {
    case Op::OP_PUTFH:
      return put_handle(compound, std::get<rpc::nfs4::PutFhArgs>(op.args), std::move(done));
    case Op::OP_READ:
      return read(compound, std::get<rpc::nfs4::ReadArgs>(op.args), std::move(done));
    case Op::OP_WRITE:
      return write(compound, std::get<rpc::nfs4::WriteArgs>(std::move(op.args)), std::move(done));
    case Op::OP_COMMIT:
      return commit(compound, std::get<rpc::nfs4::CommitArgs>(op.args), std::move(done));
    default: return done(rpc::nfs4::failed(op.op, Status::NFS4ERR_NOTSUPP));
  }
}

void DsHandler::put_handle(rpc::Compound& compound, const rpc::nfs4::PutFhArgs& args,
                           rpc::OpDone done) {
  compound.scratch.reset();
  const unsigned stops = parts_.gate.stops();
  auto handle = parts_.gate.admit(args.handle.bytes());
  const bool no_lease = !handle && handle.error() == Errc::kBusy;
  compound.shows_right = compound.shows_right || no_lease;
  if (!no_lease || parts_.lease_wait == nullptr) {
    return handle_checked(compound, std::move(handle), std::move(done));
  }
  parts_.lease_wait->wait([this, &compound, stops, bytes = args.handle,
                           done = std::move(done)](LeaseWait::End end) mutable {
    const bool waited = end == LeaseWait::End::kInVain;
    auto again = parts_.gate.admit(bytes.bytes(), waited);
    if (again && HandleGate::is_clients(*again) && parts_.gate.stops() != stops) {
      again = fail(Errc::kFenced, "this server had stopped serving");
    }
    handle_checked(compound, std::move(again), std::move(done));
  });
}

void DsHandler::handle_checked(rpc::Compound& compound, Result<layout::Handle> handle,
                               rpc::OpDone done) {
  if (handle && !HandleGate::is_clients(*handle) && !compound.client->server) {
    handle = fail(Errc::kFenced, "it is for servers only");
  }
  if (!handle) {
    parts_.counters.mine().refused.add();
    spdlog::debug("event=handle_refused client={} why=\"{}\"", compound.client->id,
                  handle.error().describe());
    return done(rpc::nfs4::failed(Op::OP_PUTFH, rpc::nfs4::status_from(handle.error().code)));
  }
  compound.scratch = *handle;
  compound.shows_right = true;
  done({Op::OP_PUTFH, Status::NFS4_OK, rpc::nfs4::None{}, 0});
}

// Others may have been told since it was admitted that this server is fenced. With a new lease come
// the fences it missed.
void DsHandler::when_served(const layout::Handle& handle,
                            std::move_only_function<void(Status)> then) {
  if (parts_.gate.may_serve(handle)) return then(Status::NFS4_OK);
  if (parts_.gate.refuses(handle)) return then(Status::NFS4ERR_ACCESS);
  if (parts_.lease_wait == nullptr) return then(Status::NFS4ERR_DELAY);
  parts_.lease_wait->wait([this, handle, then = std::move(then)](LeaseWait::End end) mutable {
    const bool in_vain = end == LeaseWait::End::kInVain && HandleGate::is_clients(handle);
    if (end != LeaseWait::End::kHeld) {
      return then(in_vain ? Status::NFS4ERR_ACCESS : Status::NFS4ERR_DELAY);
    }
    then(parts_.gate.still_admits(handle) ? Status::NFS4_OK : Status::NFS4ERR_ACCESS);
  });
}

Status DsHandler::status_of(const Error& error, const layout::Handle& handle) const {
  const Status status = rpc::nfs4::status_from(error.code);
  const bool in_vain = status == Status::NFS4ERR_DELAY && parts_.gate.better_elsewhere(handle);
  return in_vain ? Status::NFS4ERR_ACCESS : status;
}

DsHandler::Begun DsHandler::begin(Op op, rpc::OpDone done) {
  parts_.counters.mine().running.add();
  return {op, parts_.clock.now(), std::move(done)};
}

void DsHandler::answer(Begun& begun, rpc::nfs4::OpResult result) {
  Counters::Cell& counters = parts_.counters.mine();
  counters.running.subtract();
  counters.took[static_cast<std::size_t>(timed(begun.op))].add(parts_.clock.now() - begun.at);
  begun.done(std::move(result));
}

void DsHandler::fail_op(Begun& begun, Status status) {
  parts_.counters.mine().errors.add();
  answer(begun, rpc::nfs4::failed(begun.op, status));
}

void DsHandler::commit(rpc::Compound& compound, const rpc::nfs4::CommitArgs& args,
                       rpc::OpDone done) {
  Counters::Cell& counters = parts_.counters.mine();
  counters.commits.add();
  Begun begun = begin(Op::OP_COMMIT, std::move(done));
  const layout::Handle* handle = current_object(compound);
  if (handle == nullptr) return fail_op(begun, Status::NFS4ERR_NOFILEHANDLE);
  if (!layout::may_write(handle->access)) {
    counters.refused.add();
    return fail_op(begun, Status::NFS4ERR_ACCESS);
  }
  if (args.count > std::numeric_limits<std::uint64_t>::max() - args.offset) {
    return fail_op(begun, Status::NFS4ERR_INVAL);
  }
  if (!parts_.gate.still_admits(*handle)) {
    counters.refused.add();
    return fail_op(begun, Status::NFS4ERR_ACCESS);
  }
  auto finish = [this, at = *handle,
                 begun = std::move(begun)](Result<WriteVerifier> verifier) mutable {
    if (!verifier) return fail_op(begun, status_of(verifier.error(), at));
    when_served(at, [this, verifier = *verifier, begun = std::move(begun)](Status status) mutable {
      if (status != Status::NFS4_OK) return fail_op(begun, status);
      answer(begun, {Op::OP_COMMIT, Status::NFS4_OK, rpc::nfs4::CommitOk{verifier}, 0});
    });
  };
  if (!concerns_copies(*handle)) return parts_.store.commit(handle->object, std::move(finish));
  if (parts_.duplication == nullptr) return finish(fail(Errc::kInternal, "no partners here"));
  parts_.duplication->commit(*handle, std::move(finish));
}

}  // namespace weft::ds
