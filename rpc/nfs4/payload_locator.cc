#include "rpc/nfs4/payload_locator.h"

#include "rpc/nfs4/types.h"
#include "rpc/xdr/xdr.h"

namespace weft::rpc::nfs4 {
namespace {

constexpr std::size_t kSequenceArgs = 32;
constexpr std::size_t kSequenceOk = 36;
constexpr std::size_t kStateid = 16;

bool next_is(xdr::Decoder& in, Op op) { return in.u32() == static_cast<std::uint32_t>(op); }

// Up to what SEQUENCE has for arguments. False: no COMPOUND that begins with it.
bool skip_to_sequence(xdr::Decoder& in) {
  in.skip(4 * 4);  // RPC version, program, version, procedure
  in.skip(4);
  static_cast<void>(in.opaque(400));  // credential
  in.skip(4);
  static_cast<void>(in.opaque(400));  // verifier
  static_cast<void>(in.opaque(kMaxTagBytes));
  in.skip(8);  // minor version, number of operations
  return next_is(in, Op::OP_SEQUENCE);
}

// Up to what WRITE has for arguments; the handle in front of it. Nothing: it is another call.
std::optional<std::span<const std::byte>> skip_to_write(xdr::Decoder& in) {
  if (!skip_to_sequence(in)) return std::nullopt;
  in.skip(kSequenceArgs);
  if (!next_is(in, Op::OP_PUTFH)) return std::nullopt;
  const auto handle = in.opaque(kMaxHandleBytes);
  if (!next_is(in, Op::OP_WRITE) || !in.ok()) return std::nullopt;
  return handle;
}

std::size_t in_call(xdr::Decoder& in) {
  if (!skip_to_write(in)) return 0;
  in.skip(kStateid + 8 + 4 + 4);  // stateid, offset, stability, length
  return in.ok() ? in.position() : 0;
}

std::size_t in_reply(xdr::Decoder& in) {
  in.skip(4 + 4);                     // accepted, the verifier's flavor
  static_cast<void>(in.opaque(400));  // verifier
  in.skip(4 + 4);                     // success, the compound's status
  static_cast<void>(in.opaque(kMaxTagBytes));
  in.skip(4);  // number of results
  if (!next_is(in, Op::OP_SEQUENCE) || in.u32() != 0) return 0;
  in.skip(kSequenceOk);
  if (!next_is(in, Op::OP_PUTFH) || in.u32() != 0) return 0;
  if (!next_is(in, Op::OP_READ) || in.u32() != 0) return 0;
  in.skip(4 + 4);  // eof, length
  return in.ok() ? in.position() : 0;
}

}  // namespace

std::optional<SessionId> locate_session(std::span<const std::byte> head) {
  xdr::Decoder in(head);
  in.skip(4);  // xid
  if (in.u32() != 0 || !skip_to_sequence(in)) return std::nullopt;
  SessionId session{};
  in.fixed(session);
  return in.ok() ? std::optional(session) : std::nullopt;
}

std::optional<std::span<const std::byte>> locate_handle(std::span<const std::byte> head) {
  xdr::Decoder in(head);
  in.skip(4);  // xid
  if (in.u32() != 0) return std::nullopt;
  return skip_to_write(in);
}

std::size_t locate_payload(std::span<const std::byte> head) {
  xdr::Decoder in(head);
  in.skip(4);  // xid
  const std::uint32_t type = in.u32();
  if (!in.ok() || type > 1) return 0;
  return type == 0 ? in_call(in) : in_reply(in);
}

}  // namespace weft::rpc::nfs4
