#include "rpc/nfs4/layout_ops.h"

namespace weft::rpc::nfs4 {
namespace {

constexpr std::size_t kMaxSegments = 64;
constexpr std::uint32_t kReturnFile = 1;  // LAYOUTRETURN4_FILE

void encode_notify(xdr::Encoder& out, std::uint32_t word) { out.bitmap(std::span(&word, 1)); }

void encode(xdr::Encoder& out, const LayoutSegment& segment) {
  out.u64(segment.offset);
  out.u64(segment.length);
  encode_enum(out, segment.iomode);
  out.u32(segment.type);
  out.opaque(segment.body);
}

void decode(xdr::Decoder& in, LayoutSegment& segment) {
  segment.offset = in.u64();
  segment.length = in.u64();
  decode_enum(in, segment.iomode, IoMode::LAYOUTIOMODE4_READ, IoMode::ANY);
  segment.type = in.u32();
  segment.body = decode_bytes(in, kMaxLayoutBodyBytes);
}

void decode_type(xdr::Decoder& in, LayoutType& type) {
  decode_enum(in, type, static_cast<LayoutType>(1), static_cast<LayoutType>(5));
}

}  // namespace

void encode(xdr::Encoder& out, const LayoutGetArgs& args) {
  out.boolean(args.signal_available);
  encode_enum(out, args.type);
  encode_enum(out, args.iomode);
  out.u64(args.offset);
  out.u64(args.length);
  out.u64(args.min_length);
  encode(out, args.stateid);
  out.u32(args.max_count);
}

void decode(xdr::Decoder& in, LayoutGetArgs& args) {
  args.signal_available = in.boolean();
  decode_type(in, args.type);
  decode_enum(in, args.iomode, IoMode::LAYOUTIOMODE4_READ, IoMode::ANY);
  args.offset = in.u64();
  args.length = in.u64();
  args.min_length = in.u64();
  decode(in, args.stateid);
  args.max_count = in.u32();
}

void encode(xdr::Encoder& out, const LayoutGetOk& ok) {
  out.boolean(ok.return_on_close);
  encode(out, ok.stateid);
  out.u32(static_cast<std::uint32_t>(ok.segments.size()));
  for (const LayoutSegment& segment : ok.segments) encode(out, segment);
}

void decode(xdr::Decoder& in, LayoutGetOk& ok) {
  ok.return_on_close = in.boolean();
  decode(in, ok.stateid);
  ok.segments.clear();
  const std::uint32_t count = in.count(kMaxSegments);
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) decode(in, ok.segments.emplace_back());
}

void encode(xdr::Encoder& out, const LayoutReturnArgs& args) {
  out.boolean(args.reclaim);
  encode_enum(out, args.type);
  encode_enum(out, args.iomode);
  out.u32(kReturnFile);
  out.u64(args.offset);
  out.u64(args.length);
  encode(out, args.stateid);
  out.opaque(args.body);
}

void decode(xdr::Decoder& in, LayoutReturnArgs& args) {
  args.reclaim = in.boolean();
  decode_type(in, args.type);
  decode_enum(in, args.iomode, IoMode::LAYOUTIOMODE4_READ, IoMode::ANY);
  if (in.u32() != kReturnFile) in.reject();
  args.offset = in.u64();
  args.length = in.u64();
  decode(in, args.stateid);
  args.body = decode_bytes(in, kMaxLayoutBodyBytes);
}

void encode(xdr::Encoder& out, const LayoutReturnOk& ok) {
  out.boolean(ok.stateid.has_value());
  if (ok.stateid) encode(out, *ok.stateid);
}

void decode(xdr::Decoder& in, LayoutReturnOk& ok) {
  ok.stateid.reset();
  if (in.boolean()) decode(in, ok.stateid.emplace());
}

void encode(xdr::Encoder& out, const LayoutCommitArgs& args) {
  out.u64(args.offset);
  out.u64(args.length);
  out.boolean(args.reclaim);
  encode(out, args.stateid);
  out.boolean(args.last_write_offset.has_value());
  if (args.last_write_offset) out.u64(*args.last_write_offset);
  out.boolean(args.time_modify.has_value());
  if (args.time_modify) encode(out, *args.time_modify);
  out.u32(args.type);
  out.opaque(args.body);
}

void decode(xdr::Decoder& in, LayoutCommitArgs& args) {
  args.offset = in.u64();
  args.length = in.u64();
  args.reclaim = in.boolean();
  decode(in, args.stateid);
  args.last_write_offset.reset();
  if (in.boolean()) args.last_write_offset = in.u64();
  args.time_modify.reset();
  if (in.boolean()) decode(in, args.time_modify.emplace());
  args.type = in.u32();
  args.body = decode_bytes(in, kMaxLayoutBodyBytes);
}

void encode(xdr::Encoder& out, const LayoutCommitOk& ok) {
  out.boolean(ok.new_size.has_value());
  if (ok.new_size) out.u64(*ok.new_size);
}

void decode(xdr::Decoder& in, LayoutCommitOk& ok) {
  ok.new_size.reset();
  if (in.boolean()) ok.new_size = in.u64();
}

void encode(xdr::Encoder& out, const GetDeviceInfoArgs& args) {
  out.fixed(args.device);
  encode_enum(out, args.type);
  out.u32(args.max_count);
  encode_notify(out, args.notify);
}

void decode(xdr::Decoder& in, GetDeviceInfoArgs& args) {
  in.fixed(args.device);
  decode_type(in, args.type);
  args.max_count = in.u32();
  args.notify = in.bitmap().word[0];
}

void encode(xdr::Encoder& out, const GetDeviceInfoOk& ok) {
  out.u32(ok.type);
  out.opaque(ok.address);
  encode_notify(out, ok.notify);
}

void decode(xdr::Decoder& in, GetDeviceInfoOk& ok) {
  ok.type = in.u32();
  ok.address = decode_bytes(in, kMaxLayoutBodyBytes);
  ok.notify = in.bitmap().word[0];
}

}  // namespace weft::rpc::nfs4
