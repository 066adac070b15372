#include "rpc/nfs4/file_ops.h"

#include "rpc/base/assert.h"

namespace weft::rpc::nfs4 {
namespace {

// Longer names are decoded so that they can be answered NFS4ERR_NAMETOOLONG.
constexpr std::size_t kMaxWireNameBytes = 1024;

enum Delegation : std::uint32_t { kNone = 0, kNoneExt = 3 };

// open_delegation4 without a delegation: OPEN_DELEGATE_NONE, or NONE_EXT with its reason.
void decode_no_delegation(xdr::Decoder& in) {
  switch (in.u32()) {
    case kNone: return;
    case kNoneExt: {
      const std::uint32_t why = in.u32();
      // WND4_CONTENTION and WND4_RESOURCE say whether the server will tell when it ends.
      if (why == 1 || why == 2) static_cast<void>(in.boolean());
      return;
    }
    default: in.reject();
  }
}

}  // namespace

void encode(xdr::Encoder& out, const PutFhArgs& args) { encode(out, args.handle); }
void decode(xdr::Decoder& in, PutFhArgs& args) { decode(in, args.handle); }
void encode(xdr::Encoder& out, const GetFhOk& ok) { encode(out, ok.handle); }
void decode(xdr::Decoder& in, GetFhOk& ok) { decode(in, ok.handle); }
void encode(xdr::Encoder& out, const LookupArgs& args) { out.string(args.name); }
void decode(xdr::Decoder& in, LookupArgs& args) { args.name = in.string(kMaxWireNameBytes); }

void encode(xdr::Encoder& out, const OpenArgs& args) {
  out.u32(0);  // seqid: not used since minor version 1
  out.u32(args.share_access);
  out.u32(args.share_deny);
  out.u64(args.client_id);
  out.opaque(args.owner);
  out.u32(args.create ? 1 : 0);
  if (args.create) {
    encode_enum(out, args.create->mode);
    encode(out, args.create->attributes);
  }
  encode_enum(out, args.claim);
  if (args.claim == OpenClaim::CLAIM_NULL) out.string(args.name);
}

void decode(xdr::Decoder& in, OpenArgs& args) {
  static_cast<void>(in.u32());
  args.share_access = in.u32();
  args.share_deny = in.u32();
  args.client_id = in.u64();
  args.owner = decode_bytes(in, kMaxOwnerBytes);
  args.create.reset();
  if (in.boolean()) {
    auto& create = args.create.emplace();
    decode_enum(in, create.mode, CreateMode::UNCHECKED4, CreateMode::GUARDED4);
    decode(in, create.attributes);
  }
  const std::uint32_t claim = in.u32();
  if (claim == static_cast<std::uint32_t>(OpenClaim::CLAIM_NULL)) {
    args.claim = OpenClaim::CLAIM_NULL;
    args.name = in.string(kMaxWireNameBytes);
  } else if (claim == static_cast<std::uint32_t>(OpenClaim::CLAIM_FH)) {
    args.claim = OpenClaim::CLAIM_FH;
  } else {
    in.reject();
  }
}

void encode(xdr::Encoder& out, const OpenOk& ok) {
  encode(out, ok.stateid);
  encode(out, ok.change);
  out.u32(ok.flags);
  encode(out, ok.attributes_set);
  out.u32(kNone);
}

void decode(xdr::Decoder& in, OpenOk& ok) {
  decode(in, ok.stateid);
  decode(in, ok.change);
  ok.flags = in.u32();
  decode(in, ok.attributes_set);
  decode_no_delegation(in);
}

void encode(xdr::Encoder& out, const CloseArgs& args) {
  out.u32(args.seqid);
  encode(out, args.stateid);
}

void decode(xdr::Decoder& in, CloseArgs& args) {
  args.seqid = in.u32();
  decode(in, args.stateid);
}

void encode(xdr::Encoder& out, const CloseOk& ok) { encode(out, ok.stateid); }
void decode(xdr::Decoder& in, CloseOk& ok) { decode(in, ok.stateid); }
void encode(xdr::Encoder& out, const GetAttrArgs& args) { encode(out, args.mask); }
void decode(xdr::Decoder& in, GetAttrArgs& args) { decode(in, args.mask); }
void encode(xdr::Encoder& out, const GetAttrOk& ok) { encode(out, ok.attributes); }
void decode(xdr::Decoder& in, GetAttrOk& ok) { decode(in, ok.attributes); }

void encode(xdr::Encoder& out, const CreateArgs& args) {
  WEFT_ASSERT(args.type == FileType::NF4DIR || args.type == FileType::NF4SOCK ||
              args.type == FileType::NF4FIFO);
  encode_enum(out, args.type);
  out.string(args.name);
  encode(out, args.attributes);
}

void decode(xdr::Decoder& in, CreateArgs& args) {
  decode_enum(in, args.type, FileType::NF4REG, FileType::NF4FIFO);
  if (args.type == FileType::NF4LNK || args.type == FileType::NF4BLK ||
      args.type == FileType::NF4CHR || args.type == FileType::NF4REG) {
    in.reject();
  }
  args.name = in.string(kMaxWireNameBytes);
  decode(in, args.attributes);
}

void encode(xdr::Encoder& out, const CreateOk& ok) {
  encode(out, ok.change);
  encode(out, ok.attributes_set);
}

void decode(xdr::Decoder& in, CreateOk& ok) {
  decode(in, ok.change);
  decode(in, ok.attributes_set);
}

void encode(xdr::Encoder& out, const RemoveArgs& args) { out.string(args.name); }
void decode(xdr::Decoder& in, RemoveArgs& args) { args.name = in.string(kMaxWireNameBytes); }
void encode(xdr::Encoder& out, const RemoveOk& ok) { encode(out, ok.change); }
void decode(xdr::Decoder& in, RemoveOk& ok) { decode(in, ok.change); }

void encode(xdr::Encoder& out, const RenameArgs& args) {
  out.string(args.from);
  out.string(args.to);
}

void decode(xdr::Decoder& in, RenameArgs& args) {
  args.from = in.string(kMaxWireNameBytes);
  args.to = in.string(kMaxWireNameBytes);
}

void encode(xdr::Encoder& out, const RenameOk& ok) {
  encode(out, ok.source);
  encode(out, ok.target);
}

void decode(xdr::Decoder& in, RenameOk& ok) {
  decode(in, ok.source);
  decode(in, ok.target);
}

void encode(xdr::Encoder& out, const ReadDirArgs& args) {
  out.u64(args.cookie);
  out.u64(args.verifier);
  out.u32(args.dir_count);
  out.u32(args.max_count);
  encode(out, args.mask);
}

void decode(xdr::Decoder& in, ReadDirArgs& args) {
  args.cookie = in.u64();
  args.verifier = in.u64();
  args.dir_count = in.u32();
  args.max_count = in.u32();
  decode(in, args.mask);
}

void encode(xdr::Encoder& out, const ReadDirOk& ok) {
  out.u64(ok.verifier);
  for (const DirEntry& entry : ok.entries) {
    out.u32(1);
    out.u64(entry.cookie);
    out.string(entry.name);
    encode(out, entry.attributes);
  }
  out.u32(0);
  out.u32(ok.eof ? 1 : 0);
}

void decode(xdr::Decoder& in, ReadDirOk& ok) {
  ok.verifier = in.u64();
  ok.entries.clear();
  while (in.boolean()) {
    if (!in.ok() || ok.entries.size() == kMaxDirEntries) return in.reject();
    DirEntry& entry = ok.entries.emplace_back();
    entry.cookie = in.u64();
    entry.name = in.string(kMaxWireNameBytes);
    decode(in, entry.attributes);
  }
  ok.eof = in.boolean();
}

}  // namespace weft::rpc::nfs4
