#include "rpc/session/session_calls.h"

#include "rpc/base/log_text.h"

namespace weft::rpc {
namespace {

using nfs4::Op;
using nfs4::OpResult;
using nfs4::Status;

template <class Ok>
OpResult result_of(Op op, OrStatus<Ok> outcome) {
  if (!outcome) return failed(op, outcome.error());
  return {op, Status::NFS4_OK, std::move(*outcome), 0};
}

OpResult exchange_id(ServerCore& core, const Caller& caller, const nfs4::ExchangeIdArgs& args) {
  const CallHeader& call = caller.call;
  auto outcome = core.table.exchange_id(args, principal_of(call), caller.host, caller.by_rdma);
  if (outcome) {
    core.clients_log.info("event=exchange_id client={:x} confirmed={} principal={} impl=\"{}\"",
                          outcome->client_id,
                          (outcome->flags & nfs4::EXCHGID4_FLAG_CONFIRMED_R) != 0,
                          principal_of(call), args.impl ? log_text(args.impl->name) : "");
  } else {
    core.clients_log.info("event=exchange_id status={} principal={}",
                          nfs4::to_string(outcome.error()), principal_of(call));
  }
  return result_of(Op::OP_EXCHANGE_ID, std::move(outcome));
}

OpResult create_session(ServerCore& core, const CallHeader& call,
                        const nfs4::CreateSessionArgs& args) {
  auto outcome = core.table.create_session(args, principal_of(call));
  if (outcome) {
    core.sessions_log.info(
        "event=create_session client={:x} slots={} max_request={} max_response={}", args.client_id,
        outcome->fore.max_requests, outcome->fore.max_request, outcome->fore.max_response);
  } else {
    core.sessions_log.info("event=create_session client={:x} status={}", args.client_id,
                           nfs4::to_string(outcome.error()));
  }
  return result_of(Op::OP_CREATE_SESSION, std::move(outcome));
}

OpResult reclaim_complete(ServerSession* session, const nfs4::ReclaimCompleteArgs& args) {
  // A data server has nothing to reclaim: what counts is that a client hears when it errs.
  if (!args.one_fs && session->client().reclaim_complete.exchange(true)) {
    return failed(Op::OP_RECLAIM_COMPLETE, Status::NFS4ERR_COMPLETE_ALREADY);
  }
  return {Op::OP_RECLAIM_COMPLETE, Status::NFS4_OK, nfs4::None{}, 0};
}

}  // namespace

std::string principal_of(const CallHeader& call) {
  if (call.flavor != AuthFlavor::AUTH_SYS) return "none";
  return "sys:" + std::to_string(call.uid);
}

bool may_stand_alone(Op op) {
  switch (op) {
    case Op::OP_EXCHANGE_ID:
    case Op::OP_CREATE_SESSION:
    case Op::OP_DESTROY_SESSION:
    case Op::OP_DESTROY_CLIENTID:
    case Op::OP_BIND_CONN_TO_SESSION: return true;
    default: return false;
  }
}

std::optional<OpResult> answer_session_op(ServerCore& core, const Caller& caller,
                                          ServerSession* session, const nfs4::OpArgs& op) {
  switch (op.op) {
    case Op::OP_EXCHANGE_ID:
      return exchange_id(core, caller, std::get<nfs4::ExchangeIdArgs>(op.args));
    case Op::OP_CREATE_SESSION:
      return create_session(core, caller.call, std::get<nfs4::CreateSessionArgs>(op.args));
    case Op::OP_DESTROY_SESSION:
      return OpResult{
          op.op, core.table.destroy_session(std::get<nfs4::DestroySessionArgs>(op.args).session),
          nfs4::None{}, 0};
    case Op::OP_DESTROY_CLIENTID:
      return OpResult{
          op.op, core.table.destroy_client(std::get<nfs4::DestroyClientIdArgs>(op.args).client_id),
          nfs4::None{}, 0};
    case Op::OP_BIND_CONN_TO_SESSION:
      if (session != nullptr) return failed(op.op, Status::NFS4ERR_NOT_ONLY_OP);
      return result_of(op.op, core.table.bind(std::get<nfs4::BindConnArgs>(op.args)));
    case Op::OP_SEQUENCE: return failed(op.op, Status::NFS4ERR_SEQUENCE_POS);
    case Op::OP_RECLAIM_COMPLETE:
      if (session == nullptr) return failed(op.op, Status::NFS4ERR_OP_NOT_IN_SESSION);
      return reclaim_complete(session, std::get<nfs4::ReclaimCompleteArgs>(op.args));
    default: return std::nullopt;
  }
}

}  // namespace weft::rpc
