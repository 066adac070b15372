#include "rpc/onc/rpc_header.h"

namespace weft::rpc {
namespace {

enum MsgType : std::uint32_t { kCall = 0, kReply = 1 };
enum ReplyStat : std::uint32_t { kAccepted = 0, kDenied = 1 };
enum RejectStat : std::uint32_t { kRpcMismatch = 0, kAuthError = 1 };
constexpr std::uint32_t kRpcVersion = 2;

Refusal refuse_auth(std::uint32_t xid, AuthStat why) {
  return {.xid = xid, .kind = Refusal::Kind::kAuth, .auth = why};
}

Refusal refuse(std::uint32_t xid, AcceptStat why, const Program& program) {
  return {.xid = xid,
          .accept = why,
          .lowest = program.lowest_version,
          .highest = program.highest_version};
}

// uid and gid of an AUTH_SYS body, read in place: this is on the data path, and nothing else of
// the credential is used.
bool read_auth_sys(std::span<const std::byte> body, CallHeader& call) {
  xdr::Decoder in(body);
  static_cast<void>(in.u32());
  static_cast<void>(in.opaque(255));
  call.uid = in.u32();
  call.gid = in.u32();
  in.skip(std::size_t{4} * in.count(16));
  return in.ok() && in.remaining() == 0;
}

}  // namespace

Result<std::variant<CallHeader, Refusal>> read_call(xdr::Decoder& in, const Program& program) {
  CallHeader call;
  call.xid = in.u32();
  const std::uint32_t type = in.u32();
  const std::uint32_t rpc_version = in.u32();
  if (!in.ok() || type != kCall) return fail(Errc::kProtocol, "not an RPC call");
  if (rpc_version != kRpcVersion) {
    return Refusal{.xid = call.xid,
                   .kind = Refusal::Kind::kRpcMismatch,
                   .lowest = kRpcVersion,
                   .highest = kRpcVersion};
  }
  call.program = in.u32();
  call.version = in.u32();
  call.procedure = in.u32();
  const std::uint32_t flavor = in.u32();
  const auto body = in.opaque(kMaxAuthBytes);
  if (!in.ok()) return refuse_auth(call.xid, AuthStat::AUTH_BADCRED);
  static_cast<void>(in.u32());  // the verifier's flavor means nothing with these credentials
  static_cast<void>(in.opaque(kMaxAuthBytes));
  if (!in.ok()) return refuse_auth(call.xid, AuthStat::AUTH_BADVERF);
  // A probe for a program we lack must hear so, whatever credential it carries.
  if (call.program != program.number) return refuse(call.xid, AcceptStat::PROG_UNAVAIL, program);
  if (call.version < program.lowest_version || call.version > program.highest_version) {
    return refuse(call.xid, AcceptStat::PROG_MISMATCH, program);
  }
  call.flavor = static_cast<AuthFlavor>(flavor);
  if (call.flavor == AuthFlavor::AUTH_SYS) {
    if (!read_auth_sys(body, call)) return refuse_auth(call.xid, AuthStat::AUTH_BADCRED);
  } else if (call.flavor != AuthFlavor::AUTH_NONE) {
    return refuse_auth(call.xid, AuthStat::AUTH_REJECTEDCRED);
  }
  if (call.procedure > program.last_procedure) {
    return refuse(call.xid, AcceptStat::PROC_UNAVAIL, program);
  }
  return call;
}

void encode_refusal(xdr::Encoder& out, const Refusal& refusal) {
  out.u32(refusal.xid);
  out.u32(kReply);
  if (refusal.kind == Refusal::Kind::kRpcMismatch) {
    out.u32(kDenied);
    out.u32(kRpcMismatch);
    out.u32(refusal.lowest);
    out.u32(refusal.highest);
    return;
  }
  if (refusal.kind == Refusal::Kind::kAuth) {
    out.u32(kDenied);
    out.u32(kAuthError);
    out.u32(static_cast<std::uint32_t>(refusal.auth));
    return;
  }
  out.u32(kAccepted);
  out.u32(0);  // an AUTH_NONE verifier, empty
  out.u32(0);
  out.u32(static_cast<std::uint32_t>(refusal.accept));
  if (refusal.accept == AcceptStat::PROG_MISMATCH) {
    out.u32(refusal.lowest);
    out.u32(refusal.highest);
  }
}

void encode_accepted(xdr::Encoder& out, std::uint32_t xid) {
  encode_refusal(out, {.xid = xid, .accept = AcceptStat::SUCCESS});
}

void encode_call(xdr::Encoder& out, std::uint32_t xid, std::uint32_t program, std::uint32_t version,
                 std::uint32_t procedure, const AuthSys* auth) {
  out.u32(xid);
  out.u32(kCall);
  out.u32(kRpcVersion);
  out.u32(program);
  out.u32(version);
  out.u32(procedure);
  if (auth != nullptr) {
    out.u32(static_cast<std::uint32_t>(AuthFlavor::AUTH_SYS));
    const std::size_t length_at = out.size();
    out.u32(0);
    encode(out, *auth);
    out.patch_u32(length_at, static_cast<std::uint32_t>(out.size() - length_at - 4));
  } else {
    out.u32(0);
    out.u32(0);
  }
  out.u32(0);  // an AUTH_NONE verifier, empty
  out.u32(0);
}

Result<std::uint32_t> read_reply_xid(xdr::Decoder& in) {
  const std::uint32_t xid = in.u32();
  const std::uint32_t type = in.u32();
  if (!in.ok() || type != kReply) return fail(Errc::kProtocol, "not an RPC reply");
  return xid;
}

Result<> read_reply_status(xdr::Decoder& in) {
  const std::uint32_t reply = in.u32();
  if (in.ok() && reply == kDenied) {
    if (in.u32() == kAuthError) return fail(Errc::kAuth, "the server refused our credential");
    return fail(Errc::kProtocol, "the server speaks another RPC version");
  }
  if (reply != kAccepted) return fail(Errc::kProtocol, "malformed RPC reply");
  static_cast<void>(in.u32());
  static_cast<void>(in.opaque(kMaxAuthBytes));
  const auto accept = static_cast<AcceptStat>(in.u32());
  if (!in.ok()) return fail(Errc::kProtocol, "malformed RPC reply");
  switch (accept) {
    case AcceptStat::SUCCESS: return {};
    case AcceptStat::PROG_UNAVAIL:
    case AcceptStat::PROG_MISMATCH:
    case AcceptStat::PROC_UNAVAIL:
      return fail(Errc::kNotSupported, "the server lacks this program, version or procedure");
    case AcceptStat::GARBAGE_ARGS: return fail(Errc::kProtocol, "GARBAGE_ARGS from the server");
    case AcceptStat::SYSTEM_ERR: break;
  }
  return fail(Errc::kProtocol, "SYSTEM_ERR from the server");
}

}  // namespace weft::rpc
