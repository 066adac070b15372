#include "dataserver/parity/group_record.h"

#include "dataserver/store/small_record.h"

namespace weft::ds {

namespace {

constexpr RecordKind kKind{
    .magic = 0x57504752, .oldest = 2, .newest = 3, .name = "the group record"};
constexpr std::uint32_t kEverything = 1;
constexpr std::uint32_t kLost = 2;
constexpr std::uint32_t kNobody = 0xffffffff;

}  // namespace

std::vector<std::byte> encode(const GroupRecord& record) {
  RecordWriter writer(kKind);
  xdr::Encoder& out = writer.body;
  out.u32(record.geometry.members);
  out.u32(record.geometry.chunk);
  out.u64(record.epoch);
  out.u32(record.out < 0 ? kNobody : static_cast<std::uint32_t>(record.out));
  out.u32((record.everything ? kEverything : 0) | (record.lost ? kLost : 0));
  out.u64(record.done);
  out.u32(record.place.folder);
  out.u32(0);
  out.u64(record.place.after.fileid);
  out.u32(record.place.after.generation);
  out.u32(record.place.after.fsid);
  out.u64(record.given_up);
  return writer.seal();
}

Result<GroupRecord> decode_group_record(std::span<const std::byte> bytes) {
  auto reader = open_record(bytes, kKind);
  if (!reader) return pass(reader);
  xdr::Decoder& in = reader->body;
  const bool old = reader->version == 2;
  GroupRecord record;
  record.geometry.members = in.u32();
  record.geometry.chunk = in.u32();
  record.epoch = in.u64();
  const std::uint32_t member = in.u32();
  const std::uint32_t flags = in.u32();
  record.done = in.u64();
  record.place.folder = in.u32();
  const std::uint32_t unused = in.u32();
  record.place.after.fileid = in.u64();
  record.place.after.generation = in.u32();
  record.place.after.fsid = in.u32();
  if (!old) record.given_up = in.u64();
  const std::uint32_t known = old ? kEverything : kEverything | kLost;
  if (!reader->whole() || !record.geometry.valid() || unused != 0 || (flags & ~known) != 0) {
    return damaged(kKind);
  }
  record.everything = (flags & kEverything) != 0;
  record.lost = (flags & kLost) != 0;
  const bool progress = record.done != 0 || record.place != ListPlace{};
  if ((record.everything || record.lost) && member == kNobody) return damaged(kKind);
  if (!record.everything && progress) return damaged(kKind);
  if (member != kNobody && member >= record.geometry.members) return damaged(kKind);
  record.out = member == kNobody ? -1 : static_cast<int>(member);
  return record;
}

}  // namespace weft::ds
