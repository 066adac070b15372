#include "rpc/nfs4/compound.h"

#include "rpc/base/assert.h"

namespace weft::rpc::nfs4 {
namespace {

template <class Args, class Ok, class Visit>
bool visit_as(Visit& visit) {
  visit.template operator()<Args, Ok>();
  return true;
}

// Calls `visit.template operator()<Args, Ok>()` with the types of one operation. False when the
// operation is not in our table. The one place that says which operation has which types.
template <class Visit>
bool with_types(Op op, Visit visit) {
  switch (op) {
    case Op::OP_CLOSE: return visit_as<CloseArgs, CloseOk>(visit);
    case Op::OP_COMMIT: return visit_as<CommitArgs, CommitOk>(visit);
    case Op::OP_CREATE: return visit_as<CreateArgs, CreateOk>(visit);
    case Op::OP_GETATTR: return visit_as<GetAttrArgs, GetAttrOk>(visit);
    case Op::OP_GETFH: return visit_as<None, GetFhOk>(visit);
    case Op::OP_LOOKUP: return visit_as<LookupArgs, None>(visit);
    case Op::OP_OPEN: return visit_as<OpenArgs, OpenOk>(visit);
    case Op::OP_PUTFH: return visit_as<PutFhArgs, None>(visit);
    case Op::OP_PUTROOTFH: return visit_as<None, None>(visit);
    case Op::OP_READ: return visit_as<ReadArgs, ReadOk>(visit);
    case Op::OP_READDIR: return visit_as<ReadDirArgs, ReadDirOk>(visit);
    case Op::OP_REMOVE: return visit_as<RemoveArgs, RemoveOk>(visit);
    case Op::OP_RENAME: return visit_as<RenameArgs, RenameOk>(visit);
    case Op::OP_SAVEFH: return visit_as<None, None>(visit);
    case Op::OP_WRITE: return visit_as<WriteArgs, WriteOk>(visit);
    case Op::OP_BIND_CONN_TO_SESSION: return visit_as<BindConnArgs, BindConnOk>(visit);
    case Op::OP_EXCHANGE_ID: return visit_as<ExchangeIdArgs, ExchangeIdOk>(visit);
    case Op::OP_CREATE_SESSION: return visit_as<CreateSessionArgs, CreateSessionOk>(visit);
    case Op::OP_DESTROY_SESSION: return visit_as<DestroySessionArgs, None>(visit);
    case Op::OP_GETDEVICEINFO: return visit_as<GetDeviceInfoArgs, GetDeviceInfoOk>(visit);
    case Op::OP_LAYOUTCOMMIT: return visit_as<LayoutCommitArgs, LayoutCommitOk>(visit);
    case Op::OP_LAYOUTGET: return visit_as<LayoutGetArgs, LayoutGetOk>(visit);
    case Op::OP_LAYOUTRETURN: return visit_as<LayoutReturnArgs, LayoutReturnOk>(visit);
    case Op::OP_SEQUENCE: return visit_as<SequenceArgs, SequenceOk>(visit);
    case Op::OP_DESTROY_CLIENTID: return visit_as<DestroyClientIdArgs, None>(visit);
    case Op::OP_RECLAIM_COMPLETE: return visit_as<ReclaimCompleteArgs, None>(visit);
    case Op::OP_ILLEGAL: return false;
  }
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

OpArgs decode_op(xdr::Decoder& in, const Buffer& record, BulkApart& apart) {
  constexpr std::size_t kWriteWithoutData = 4 + 16 + 8 + 4 + 4;  // operation to length
  xdr::Decoder write = in;
  const bool takes_it = apart.size() != 0 && in.remaining() == kWriteWithoutData &&
                        write.u32() == static_cast<std::uint32_t>(Op::OP_WRITE);
  if (!takes_it) return decode_op(in, record);
  in = write;
  WriteArgs args;
  decode(in, apart, args);
  return {Op::OP_WRITE, std::move(args)};
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

Result<CompoundResult> decode_compound_result(xdr::Decoder& in, const Buffer& record,
                                              std::vector<Buffer> lent) {
  constexpr std::size_t kReadWithoutData = 4 + 4 + 4 + 4;  // operation to length
  BulkApart apart{.piped = {}, .lent = std::move(lent)};
  CompoundResult out;
  out.status = static_cast<Status>(in.u32());
  out.tag = in.string(kMaxTagBytes);
  const std::uint32_t count = in.count(kMaxOpsPerCompound);
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    xdr::Decoder read = in;
    const bool takes_it = !apart.lent.empty() && in.remaining() == kReadWithoutData &&
                          read.u32() == static_cast<std::uint32_t>(Op::OP_READ) &&
                          read.u32() == static_cast<std::uint32_t>(Status::NFS4_OK);
    if (!takes_it) {
      out.results.push_back(decode_result(in, record));
      continue;
    }
    in = read;
    ReadOk ok;
    decode(in, apart, ok);
    out.results.push_back({Op::OP_READ, Status::NFS4_OK, std::move(ok), 0});
  }
  if (!apart.lent.empty()) in.reject();
  if (auto end = in.finish("COMPOUND reply"); !end) return pass(end);
  return out;
}

}  // namespace weft::rpc::nfs4
