#include "dataserver/parity/group_record.h"

#include <xxhash.h>

#include "rpc/xdr/xdr.h"

namespace weft::ds {

namespace {

constexpr std::uint32_t kMagic = 0x57504752;
constexpr std::uint32_t kVersion = 2;
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
  out.u32(record.everything ? 1 : 0);
  out.u64(record.done);
  out.u32(record.place.folder);
  out.u32(0);
  out.u64(record.place.after.fileid);
  out.u32(record.place.after.generation);
  out.u32(record.place.after.fsid);
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
  const std::uint32_t everything = in.u32();
  if (version != kVersion && XXH64(bytes.data(), bytes.size() - 8, 0) == sum_of(bytes)) {
    return fail(Errc::kNotSupported, "a group record of another version");
  }
  if (bytes.size() != GroupRecord::kBytes) return corrupt();
  record.done = in.u64();
  record.place.folder = in.u32();
  const std::uint32_t unused = in.u32();
  record.place.after.fileid = in.u64();
  record.place.after.generation = in.u32();
  record.place.after.fsid = in.u32();
  if (in.u64() != XXH64(bytes.data(), bytes.size() - 8, 0)) return corrupt();
  if (!record.geometry.valid() || unused != 0 || everything > 1) return corrupt();
  record.everything = everything == 1;
  const bool progress = record.done != 0 || record.place != ListPlace{};
  if (record.everything ? member == kNobody : progress) return corrupt();
  if (member != kNobody && member >= record.geometry.members) return corrupt();
  record.out = member == kNobody ? -1 : static_cast<int>(member);
  return record;
}

}  // namespace weft::ds
