#include "dataserver/parity/group_record.h"

#include <xxhash.h>

#include "rpc/xdr/xdr.h"

namespace weft::ds {

namespace {

constexpr std::uint32_t kMagic = 0x57504752;
constexpr std::uint32_t kVersion = 3;
constexpr std::uint32_t kVersion2 = 2;
constexpr std::uint32_t kEverything = 1;
constexpr std::uint32_t kLost = 2;
constexpr std::uint32_t kNobody = 0xffffffff;
constexpr std::size_t kLeastBytes = 40;

std::uint64_t sum_of(std::span<const std::byte> bytes) {
  xdr::Decoder in(bytes.last(8));
  return in.u64();
}

}  // namespace

std::vector<std::byte> encode(const GroupRecord& record) {
  xdr::Encoder out;
  out.u32(kMagic);
  out.u32(kVersion);
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
  out.u64(XXH64(out.bytes().data(), out.size(), 0));
  return out.take();
}

Result<GroupRecord> decode_group_record(std::span<const std::byte> bytes) {
  const auto corrupt = [] { return fail(Errc::kCorrupt, "the group record is damaged"); };
  if (bytes.size() < kLeastBytes) return corrupt();
  xdr::Decoder in(bytes);
  if (in.u32() != kMagic) return corrupt();
  const std::uint32_t version = in.u32();
  GroupRecord record;
  record.geometry.members = in.u32();
  record.geometry.chunk = in.u32();
  record.epoch = in.u64();
  const std::uint32_t member = in.u32();
  const std::uint32_t flags = in.u32();
  const bool old = version == kVersion2;
  if (version != kVersion && !old && XXH64(bytes.data(), bytes.size() - 8, 0) == sum_of(bytes)) {
    return fail(Errc::kNotSupported, "a group record of another version");
  }
  if (bytes.size() != (old ? GroupRecord::kBytes2 : GroupRecord::kBytes)) return corrupt();
  record.done = in.u64();
  record.place.folder = in.u32();
  const std::uint32_t unused = in.u32();
  record.place.after.fileid = in.u64();
  record.place.after.generation = in.u32();
  record.place.after.fsid = in.u32();
  if (!old) record.given_up = in.u64();
  if (in.u64() != XXH64(bytes.data(), bytes.size() - 8, 0)) return corrupt();
  const std::uint32_t known = old ? kEverything : kEverything | kLost;
  if (!record.geometry.valid() || unused != 0 || (flags & ~known) != 0) return corrupt();
  record.everything = (flags & kEverything) != 0;
  record.lost = (flags & kLost) != 0;
  const bool progress = record.done != 0 || record.place != ListPlace{};
  if ((record.everything || record.lost) && member == kNobody) return corrupt();
  if (!record.everything && progress) return corrupt();
  if (member != kNobody && member >= record.geometry.members) return corrupt();
  record.out = member == kNobody ? -1 : static_cast<int>(member);
  return record;
}

}  // namespace weft::ds
