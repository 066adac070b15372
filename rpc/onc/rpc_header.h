// RPC call and reply headers (RFC 5531 section 9).
//
// read_call() tells three things apart: a call to be served, a call to be answered with an RPC
// error (the answer says which), and bytes that are no call at all, whose connection should end.
// An unknown program is an error to answer, never a reason to drop the connection: Linux clients
// probe programs (LOCALIO) on a connection they mean to keep.
//
// Threading: values and pure functions.
#pragma once

#include <cstdint>
#include <variant>

#include "rpc/onc/auth.h"
#include "rpc/onc/message.h"
#include "rpc/xdr/xdr.h"

namespace weft::rpc {

enum class AcceptStat : std::uint32_t {
  SUCCESS = 0,
  PROG_UNAVAIL = 1,
  PROG_MISMATCH = 2,
  PROC_UNAVAIL = 3,
  GARBAGE_ARGS = 4,
  SYSTEM_ERR = 5,
};

enum class AuthStat : std::uint32_t {
  AUTH_OK = 0,
  AUTH_BADCRED = 1,
  AUTH_REJECTEDCRED = 2,
  AUTH_BADVERF = 3,
  AUTH_REJECTEDVERF = 4,
  AUTH_TOOWEAK = 5,
};

struct CallHeader {
  std::uint32_t xid = 0;
  std::uint32_t program = 0;
  std::uint32_t version = 0;
  std::uint32_t procedure = 0;
  AuthFlavor flavor = AuthFlavor::AUTH_NONE;
  std::uint32_t uid = kNobody;  // of AUTH_SYS
  std::uint32_t gid = kNobody;
};

// What a server offers: one program, a range of versions, procedures 0 to last_procedure.
struct Program {
  std::uint32_t number;
  std::uint32_t lowest_version;
  std::uint32_t highest_version;
  std::uint32_t last_procedure;
};

// Why a call is refused; encode_refusal() makes the whole reply.
struct Refusal {
  enum class Kind : std::uint8_t {
    kRpcMismatch,
    kAuth,
    kAccept,  // accept_stat other than SUCCESS
  };
  std::uint32_t xid = 0;
  Kind kind = Kind::kAccept;
  AuthStat auth = AuthStat::AUTH_OK;
  AcceptStat accept = AcceptStat::SUCCESS;
  std::uint32_t lowest = 0;  // versions, for the mismatches
  std::uint32_t highest = 0;
};

// Reads a call's header; afterwards `in` is at the procedure's arguments. kProtocol when these
// bytes are no RPC call (too short for one, or a reply).
[[nodiscard]] Result<std::variant<CallHeader, Refusal>> read_call(xdr::Decoder& in,
                                                                  const Program& program);

void encode_refusal(xdr::Encoder& out, const Refusal& refusal);
// The header of a successful reply; the results follow.
void encode_accepted(xdr::Encoder& out, std::uint32_t xid);

// A client's call; the arguments follow.
void encode_call(xdr::Encoder& out, std::uint32_t xid, std::uint32_t program, std::uint32_t version,
                 std::uint32_t procedure, const AuthSys* auth);

// Just the xid of a reply. kProtocol when these bytes are no reply.
[[nodiscard]] Result<std::uint32_t> read_reply_xid(xdr::Decoder& in);
// The rest of the reply's header: success, or why the server refused. kAuth, kNotSupported
// (program, version or procedure unavailable), kProtocol (GARBAGE_ARGS and the like).
[[nodiscard]] Result<> read_reply_status(xdr::Decoder& in);

}  // namespace weft::rpc
