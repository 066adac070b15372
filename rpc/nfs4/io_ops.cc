#include "rpc/nfs4/io_ops.h"

#include "rpc/base/assert.h"

namespace weft::rpc::nfs4 {
namespace {

void splice_opaque(Message& out, Payload data) {
  const std::size_t size = data.size();
  WEFT_ASSERT(size <= UINT32_MAX);
  out.bytes().u32(static_cast<std::uint32_t>(size));
  if (size == 0) return;
  out.splice(std::move(data));
  static constexpr std::byte kZeros[4] = {};
  out.bytes().raw({kZeros, xdr::padded(size) - size});
}

std::size_t size_of(const std::vector<Buffer>& parts) {
  std::size_t total = 0;
  for (const Buffer& part : parts) total += part.size();
  return total;
}

// The length of an opaque whose bytes are apart. Nothing comes behind it: its padding is left out.
void check_length(xdr::Decoder& in, const BulkApart& apart) {
  const std::size_t size = apart.size();
  if (in.u32() != size || size > kMaxIoBytes || in.remaining() != 0) in.reject();
}

// An empty opaque gives an empty Buffer with nothing behind it.
Buffer share_opaque(xdr::Decoder& in, const Buffer& record) {
  const auto bytes = in.opaque(kMaxIoBytes);
  if (bytes.empty()) return {};
  auto slice = record.share(static_cast<std::size_t>(bytes.data() - record.data()), bytes.size());
  WEFT_ASSERT(slice.has_value());  // the precondition: the Decoder reads this record
  return std::move(*slice);
}

}  // namespace

std::size_t WriteArgs::size() const { return piped.size() + size_of(data); }

Result<> WriteArgs::to_memory() {
  if (piped.empty()) return {};
  auto buffer = piped.to_buffer();
  if (!buffer) return pass(buffer);
  data.push_back(std::move(*buffer));
  return {};
}

void encode(xdr::Encoder& out, const ReadArgs& args) {
  encode(out, args.stateid);
  out.u64(args.offset);
  out.u32(args.count);
}

void decode(xdr::Decoder& in, ReadArgs& args) {
  decode(in, args.stateid);
  args.offset = in.u64();
  args.count = in.u32();
}

void encode(Message& out, ReadOk ok) {
  out.bytes().boolean(ok.eof);
  splice_opaque(out, std::move(ok.data));
}

void decode(xdr::Decoder& in, const Buffer& record, ReadOk& ok) {
  ok.eof = in.boolean();
  Buffer data = share_opaque(in, record);
  if (!data.empty()) ok.data.append(std::move(data));
}

void encode(Message& out, WriteArgs args) {
  WEFT_ASSERT(args.piped.empty());
  encode(out.bytes(), args.stateid);
  out.bytes().u64(args.offset);
  encode_enum(out.bytes(), args.stable);
  Payload data;
  for (Buffer& part : args.data) data.append(std::move(part));
  splice_opaque(out, std::move(data));
}

void decode(xdr::Decoder& in, const Buffer& record, WriteArgs& args) {
  decode(in, args.stateid);
  args.offset = in.u64();
  decode_enum(in, args.stable, StableHow::UNSTABLE4, StableHow::FILE_SYNC4);
  Buffer data = share_opaque(in, record);
  if (!data.empty()) args.data.push_back(std::move(data));
}

void decode(xdr::Decoder& in, BulkApart& apart, WriteArgs& args) {
  decode(in, args.stateid);
  args.offset = in.u64();
  decode_enum(in, args.stable, StableHow::UNSTABLE4, StableHow::FILE_SYNC4);
  check_length(in, apart);
  if (!in.ok()) return;
  args.piped = std::move(apart.piped);
  args.data = std::exchange(apart.lent, {});
}

void decode(xdr::Decoder& in, BulkApart& apart, ReadOk& ok) {
  ok.eof = in.boolean();
  check_length(in, apart);
  if (!in.ok()) return;
  WEFT_ASSERT(apart.piped.empty());  // a client's channels do not pipe
  for (Buffer& part : std::exchange(apart.lent, {})) ok.data.append(std::move(part));
}

void encode(xdr::Encoder& out, const WriteOk& ok) {
  out.u32(ok.count);
  encode_enum(out, ok.committed);
  out.u64(ok.verifier);
}

void decode(xdr::Decoder& in, WriteOk& ok) {
  ok.count = in.u32();
  decode_enum(in, ok.committed, StableHow::UNSTABLE4, StableHow::FILE_SYNC4);
  ok.verifier = in.u64();
}

void encode(xdr::Encoder& out, const CommitArgs& args) {
  out.u64(args.offset);
  out.u32(args.count);
}

void decode(xdr::Decoder& in, CommitArgs& args) {
  args.offset = in.u64();
  args.count = in.u32();
}

void encode(xdr::Encoder& out, const CommitOk& ok) { out.u64(ok.verifier); }
void decode(xdr::Decoder& in, CommitOk& ok) { ok.verifier = in.u64(); }

}  // namespace weft::rpc::nfs4
