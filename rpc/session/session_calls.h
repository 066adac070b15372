// The session operations a server answers by itself, given as results. Internal to rpc/session.
//
// Threading: any thread.
#pragma once

#include <optional>
#include <string>

#include "rpc/onc/rpc_header.h"
#include "rpc/session/server_core.h"

namespace weft::rpc {

// "sys:0" or "none": whom a call's credential claims to be.
[[nodiscard]] std::string principal_of(const CallHeader& call);

// Operations that may stand without SEQUENCE, then alone in their compound (RFC 8881 section
// 2.10.6.1.3 and 18.34.3).
[[nodiscard]] bool may_stand_alone(nfs4::Op op);

// Who asks, as far as the call and its connection tell.
struct Caller {
  const CallHeader& call;
  const std::string& host;
  bool by_rdma = false;
};

// The answer to a session operation; nothing when `op` is none. `session` is the one the compound
// runs under, null without SEQUENCE.
[[nodiscard]] std::optional<nfs4::OpResult> answer_session_op(ServerCore& core,
                                                              const Caller& caller,
                                                              ServerSession* session,
                                                              const nfs4::OpArgs& op);

}  // namespace weft::rpc
