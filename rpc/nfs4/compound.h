// COMPOUND (RFC 8881 section 16.2): its header, and any one operation as a value.
//
// A server reads the header, then one operation at a time, since where the arguments of one
// operation end is known only after decoding it, and a malformed one must not undo those before.
// A client encodes a whole list and decodes a whole list of results.
//
// OpArgs and OpOk hold one alternative for each operation; operations without arguments or
// results use None, those we do not decode UnknownArgs.
//
// Threading: values. Ownership: as in io_ops.h.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "rpc/nfs4/file_ops.h"
#include "rpc/nfs4/io_ops.h"
#include "rpc/nfs4/layout_ops.h"
#include "rpc/nfs4/session_ops.h"

namespace weft::rpc::nfs4 {

struct None {
  friend bool operator==(const None&, const None&) = default;
};

// An operation number outside this file's table: answer NFS4ERR_NOTSUPP where the minor version
// defines it, OP_ILLEGAL where not. Its arguments' end is unknown, so it must end the compound.
struct UnknownArgs {
  std::uint32_t op = 0;
  friend bool operator==(const UnknownArgs&, const UnknownArgs&) = default;
};

using ArgsVariant =
    std::variant<None, UnknownArgs, PutFhArgs, ReadArgs, WriteArgs, CommitArgs, SequenceArgs,
                 ExchangeIdArgs, CreateSessionArgs, DestroySessionArgs, BindConnArgs,
                 DestroyClientIdArgs, ReclaimCompleteArgs, LookupArgs, OpenArgs, CloseArgs,
                 GetAttrArgs, CreateArgs, RemoveArgs, RenameArgs, ReadDirArgs, LayoutGetArgs,
                 LayoutReturnArgs, LayoutCommitArgs, GetDeviceInfoArgs>;

struct OpArgs {
  Op op = Op::OP_ILLEGAL;
  ArgsVariant args;
};

using OkVariant =
    std::variant<None, ReadOk, WriteOk, CommitOk, SequenceOk, ExchangeIdOk, CreateSessionOk,
                 BindConnOk, GetFhOk, OpenOk, CloseOk, GetAttrOk, CreateOk, RemoveOk, RenameOk,
                 ReadDirOk, LayoutGetOk, LayoutReturnOk, LayoutCommitOk, GetDeviceInfoOk>;

// One operation's outcome. `ok` counts only with NFS4_OK; the few failures with a body
// (LAYOUTGET's LAYOUTTRYLATER, GETDEVICEINFO's TOOSMALL) keep its one word in `detail`.
struct OpResult {
  Op op = Op::OP_ILLEGAL;
  Status status = Status::NFS4_OK;
  OkVariant ok;
  std::uint32_t detail = 0;
};

[[nodiscard]] inline OpResult failed(Op op, Status status) { return {op, status, None{}, 0}; }

struct CompoundHeader {
  std::string tag;
  std::uint32_t minor_version = 1;
  std::uint32_t op_count = 0;
};

void encode(xdr::Encoder& out, const CompoundHeader& header);
// The op count is not checked here: NFS4ERR_TOO_MANY_OPS and the like are the session's to say.
void decode(xdr::Decoder& in, CompoundHeader& header);

// The number and arguments of one operation. A failure leaves `in` rejected (NFS4ERR_BADXDR) with
// `op` telling whose arguments they were.
void encode(Message& out, OpArgs op);
[[nodiscard]] OpArgs decode_op(xdr::Decoder& in, const Buffer& record);
// Of a record whose bulk data is apart: a WRITE that comes last takes that.
[[nodiscard]] OpArgs decode_op(xdr::Decoder& in, const Buffer& record, BulkApart& apart);

void encode(Message& out, OpResult result);
[[nodiscard]] OpResult decode_result(xdr::Decoder& in, const Buffer& record);

// A whole reply body, as a client reads it.
struct CompoundResult {
  Status status = Status::NFS4_OK;
  std::string tag;
  std::vector<OpResult> results;

  // The results' alternative `T` of the index-th operation; nullptr when it is not there or failed.
  template <class T>
  [[nodiscard]] T* get(std::size_t index) {
    if (index >= results.size() || results[index].status != Status::NFS4_OK) return nullptr;
    return std::get_if<T>(&results[index].ok);
  }
};

// Tag, minor version and operations as one COMPOUND's arguments.
void encode_compound(Message& out, std::uint32_t minor_version, std::vector<OpArgs> ops);
// Bulk data that is apart is that of a READ that comes last; kProtocol if there is none.
[[nodiscard]] Result<CompoundResult> decode_compound_result(xdr::Decoder& in, const Buffer& record,
                                                            std::vector<Buffer> apart = {});

}  // namespace weft::rpc::nfs4
