#include "dataserver/parity/scrub_record.h"

#include <xxhash.h>

#include "rpc/xdr/xdr.h"

namespace weft::ds {

namespace {

constexpr std::uint32_t kMagic = 0x57505353;
constexpr std::uint32_t kVersion = 1;

}  // namespace

std::vector<std::byte> encode(const ScrubRecord& record) {
  xdr::Encoder out;
  out.u32(kMagic);
  out.u32(kVersion);
  out.u32(record.running ? 1 : 0);
  out.u32(record.only_tell ? 1 : 0);
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
  out.u64(XXH64(out.bytes().data(), out.size(), 0));
  return out.take();
}

Result<ScrubRecord> decode_scrub_record(std::span<const std::byte> bytes) {
  const auto corrupt = [] { return fail(Errc::kCorrupt, "the record of the scrub is damaged"); };
  if (bytes.size() != ScrubRecord::kBytes) return corrupt();
  xdr::Decoder in(bytes);
  const bool ours = in.u32() == kMagic && in.u32() == kVersion;
  ScrubRecord record;
  const std::uint32_t running = in.u32();
  const std::uint32_t only_tell = in.u32();
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
  if (!ours || in.u64() != XXH64(bytes.data(), bytes.size() - 8, 0)) return corrupt();
  if (running > 1 || only_tell > 1 || unused != 0) return corrupt();
  record.running = running == 1;
  record.only_tell = only_tell == 1;
  return record;
}

}  // namespace weft::ds
