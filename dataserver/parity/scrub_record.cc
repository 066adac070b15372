#include "dataserver/parity/scrub_record.h"

#include "dataserver/store/small_record.h"

namespace weft::ds {

namespace {

constexpr RecordKind kKind{
    .magic = 0x57505353, .oldest = 1, .newest = 1, .name = "the record of the scrub"};

}  // namespace

std::vector<std::byte> encode(const ScrubRecord& record) {
  RecordWriter writer(kKind);
  xdr::Encoder& out = writer.body;
  out.boolean(record.running);
  out.boolean(record.only_tell);
  out.u64(record.ended);
  out.u64(record.done);
  out.u32(record.place.folder);
  out.u32(0);
  out.u64(record.place.after.fileid);
  out.u32(record.place.after.generation);
  out.u32(record.place.after.fsid);
  out.u64(record.found.bytes);
  out.u64(record.found.corrupt);
  out.u64(record.found.parity);
  out.u64(record.found.lost);
  out.u64(record.found.failed);
  return writer.seal();
}

Result<ScrubRecord> decode_scrub_record(std::span<const std::byte> bytes) {
  auto reader = open_record(bytes, kKind);
  if (!reader) return pass(reader);
  xdr::Decoder& in = reader->body;
  ScrubRecord record;
  record.running = in.boolean();
  record.only_tell = in.boolean();
  record.ended = in.u64();
  record.done = in.u64();
  record.place.folder = in.u32();
  const std::uint32_t unused = in.u32();
  record.place.after.fileid = in.u64();
  record.place.after.generation = in.u32();
  record.place.after.fsid = in.u32();
  record.found.bytes = in.u64();
  record.found.corrupt = in.u64();
  record.found.parity = in.u64();
  record.found.lost = in.u64();
  record.found.failed = in.u64();
  if (!reader->whole() || unused != 0) return damaged(kKind);
  return record;
}

}  // namespace weft::ds
