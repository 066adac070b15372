#include "rpc/nfs4/compound.h"

#include "rpc/base/assert.h"

namespace weft::rpc::nfs4 {
namespace {

// Calls `visit.template operator()<Args, Ok>()` with the types of one operation. False when the
// operation is not in our table. The one place that says which operation has which types.
template <class Visit>
bool with_types(Op op, Visit visit) {
  // clang-format off
  switch (op) {
    case Op::OP_CLOSE: visit.template operator()<CloseArgs, CloseOk>(); return true;
    case Op::OP_COMMIT: visit.template operator()<CommitArgs, CommitOk>(); return true;
    case Op::OP_CREATE: visit.template operator()<CreateArgs, CreateOk>(); return true;
    case Op::OP_GETATTR: visit.template operator()<GetAttrArgs, GetAttrOk>(); return true;
    case Op::OP_GETFH: visit.template operator()<None, GetFhOk>(); return true;
    case Op::OP_LOOKUP: visit.template operator()<LookupArgs, None>(); return true;
    case Op::OP_OPEN: visit.template operator()<OpenArgs, OpenOk>(); return true;
    case Op::OP_PUTFH: visit.template operator()<PutFhArgs, None>(); return true;
    case Op::OP_PUTROOTFH: visit.template operator()<None, None>(); return true;
    case Op::OP_READ: visit.template operator()<ReadArgs, ReadOk>(); return true;
    case Op::OP_REMOVE: visit.template operator()<RemoveArgs, RemoveOk>(); return true;
    case Op::OP_WRITE: visit.template operator()<WriteArgs, WriteOk>(); return true;
    case Op::OP_BIND_CONN_TO_SESSION: visit.template operator()<BindConnArgs, BindConnOk>(); return true;
    case Op::OP_EXCHANGE_ID: visit.template operator()<ExchangeIdArgs, ExchangeIdOk>(); return true;
    case Op::OP_CREATE_SESSION: visit.template operator()<CreateSessionArgs, CreateSessionOk>(); return true;
    case Op::OP_DESTROY_SESSION: visit.template operator()<DestroySessionArgs, None>(); return true;
    case Op::OP_GETDEVICEINFO: visit.template operator()<GetDeviceInfoArgs, GetDeviceInfoOk>(); return true;
    case Op::OP_LAYOUTCOMMIT: visit.template operator()<LayoutCommitArgs, LayoutCommitOk>(); return true;
    case Op::OP_LAYOUTGET: visit.template operator()<LayoutGetArgs, LayoutGetOk>(); return true;
    case Op::OP_LAYOUTRETURN: visit.template operator()<LayoutReturnArgs, LayoutReturnOk>(); return true;
    case Op::OP_SEQUENCE: visit.template operator()<SequenceArgs, SequenceOk>(); return true;
    case Op::OP_DESTROY_CLIENTID: visit.template operator()<DestroyClientIdArgs, None>(); return true;
    case Op::OP_RECLAIM_COMPLETE: visit.template operator()<ReclaimCompleteArgs, None>(); return true;
    case Op::OP_ILLEGAL: return false;
  }
  // clang-format on
  return false;
}

template <class T>
void encode_any(Message& out, T value) {
  if constexpr (std::is_same_v<T, None>) {
    return;
  } else if constexpr (requires { encode(out, std::move(value)); }) {
    encode(out, std::move(value));
  } else {
    encode(out.bytes(), value);
  }
}

template <class T>
T decode_any(xdr::Decoder& in, const Buffer& record) {
  T value{};
  if constexpr (std::is_same_v<T, None>) {
    static_cast<void>(in);
  } else if constexpr (requires { decode(in, record, value); }) {
    decode(in, record, value);
  } else {
    decode(in, value);
  }
  return value;
}

// The two failures of our operations that carry one word.
bool has_detail(Op op, Status status) {
  return (op == Op::OP_LAYOUTGET && status == Status::NFS4ERR_LAYOUTTRYLATER) ||
         (op == Op::OP_GETDEVICEINFO && status == Status::NFS4ERR_TOOSMALL);
}

}  // namespace

void encode(xdr::Encoder& out, const CompoundHeader& header) {
  out.string(header.tag);
  out.u32(header.minor_version);
  out.u32(header.op_count);
}

void decode(xdr::Decoder& in, CompoundHeader& header) {
  header.tag = in.string(kMaxTagBytes);
  header.minor_version = in.u32();
  header.op_count = in.u32();
}

void encode(Message& out, OpArgs op) {
  encode_enum(out.bytes(), op.op);
  const bool known = with_types(op.op, [&]<class Args, class Ok>() {
    auto* args = std::get_if<Args>(&op.args);
    WEFT_ASSERT(args != nullptr);
    encode_any(out, std::move(*args));
  });
  WEFT_ASSERT(known);
}

OpArgs decode_op(xdr::Decoder& in, const Buffer& record) {
  const std::uint32_t number = in.u32();
  OpArgs out{static_cast<Op>(number), None{}};
  const bool known =
      with_types(out.op, [&]<class Args, class Ok>() { out.args = decode_any<Args>(in, record); });
  if (!known) out.args = UnknownArgs{number};
  return out;
}

void encode(Message& out, OpResult result) {
  encode_enum(out.bytes(), result.op);
  encode_enum(out.bytes(), result.status);
  if (result.status != Status::NFS4_OK) {
    if (has_detail(result.op, result.status)) out.bytes().u32(result.detail);
    return;
  }
  const bool known = with_types(result.op, [&]<class Args, class Ok>() {
    auto* ok = std::get_if<Ok>(&result.ok);
    WEFT_ASSERT(ok != nullptr);
    encode_any(out, std::move(*ok));
  });
  WEFT_ASSERT(known);
}

OpResult decode_result(xdr::Decoder& in, const Buffer& record) {
  OpResult out;
  out.op = static_cast<Op>(in.u32());
  out.status = static_cast<Status>(in.u32());
  if (!in.ok()) return out;
  if (out.status != Status::NFS4_OK) {
    if (has_detail(out.op, out.status)) out.detail = in.u32();
    return out;
  }
  const bool known =
      with_types(out.op, [&]<class Args, class Ok>() { out.ok = decode_any<Ok>(in, record); });
  if (!known) in.reject();
  return out;
}

void encode_compound(Message& out, std::uint32_t minor_version, std::vector<OpArgs> ops) {
  encode(out.bytes(), CompoundHeader{{}, minor_version, static_cast<std::uint32_t>(ops.size())});
  for (OpArgs& op : ops) encode(out, std::move(op));
}

Result<CompoundResult> decode_compound_result(xdr::Decoder& in, const Buffer& record) {
  CompoundResult out;
  out.status = static_cast<Status>(in.u32());
  out.tag = in.string(kMaxTagBytes);
  const std::uint32_t count = in.count(kMaxOpsPerCompound);
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    out.results.push_back(decode_result(in, record));
  }
  if (auto end = in.finish("COMPOUND reply"); !end) return pass(end);
  return out;
}

}  // namespace weft::rpc::nfs4
