#include "rpc/nfs4/codec.h"

namespace weft::rpc::nfs4 {

void encode(xdr::Encoder& out, const Stateid& stateid) {
  out.u32(stateid.seqid);
  out.fixed(stateid.other);
}

void decode(xdr::Decoder& in, Stateid& stateid) {
  stateid.seqid = in.u32();
  in.fixed(stateid.other);
}

void encode(xdr::Encoder& out, const FileHandle& handle) { out.opaque(handle.bytes()); }

void decode(xdr::Decoder& in, FileHandle& handle) {
  handle = FileHandle(in.opaque(kMaxHandleBytes));
}

void encode(xdr::Encoder& out, const Time& time) {
  out.i64(time.seconds);
  out.u32(time.nanoseconds);
}

void decode(xdr::Decoder& in, Time& time) {
  time.seconds = in.i64();
  time.nanoseconds = in.u32();
}

void encode(xdr::Encoder& out, const ChangeInfo& change) {
  out.boolean(change.atomic);
  out.u64(change.before);
  out.u64(change.after);
}

void decode(xdr::Decoder& in, ChangeInfo& change) {
  change.atomic = in.boolean();
  change.before = in.u64();
  change.after = in.u64();
}

std::vector<std::byte> decode_bytes(xdr::Decoder& in, std::size_t max) {
  const auto bytes = in.opaque(max);
  return {bytes.begin(), bytes.end()};
}

}  // namespace weft::rpc::nfs4
