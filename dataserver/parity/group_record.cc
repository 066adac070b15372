#include "dataserver/parity/group_record.h"

#include <xxhash.h>

#include "rpc/xdr/xdr.h"

namespace weft::ds {

namespace {

constexpr std::uint32_t kMagic = 0x57504752;
constexpr std::uint32_t kVersion = 1;
constexpr std::uint32_t kNobody = 0xffffffff;

}  // namespace

std::vector<std::byte> encode(const GroupRecord& record) {
  xdr::Encoder out;
  out.u32(kMagic);
  out.u32(kVersion);
  out.u32(record.geometry.members);
  out.u32(record.geometry.chunk);
  out.u64(record.epoch);
  out.u32(record.out < 0 ? kNobody : static_cast<std::uint32_t>(record.out));
  out.u32(0);
  out.u64(XXH64(out.bytes().data(), out.size(), 0));
  return out.take();
}

Result<GroupRecord> decode_group_record(std::span<const std::byte> bytes) {
  const auto corrupt = [] { return fail(Errc::kCorrupt, "the group record is damaged"); };
  if (bytes.size() != GroupRecord::kBytes) return corrupt();
  xdr::Decoder in(bytes);
  if (in.u32() != kMagic) return corrupt();
  const std::uint32_t version = in.u32();
  GroupRecord record;
  record.geometry.members = in.u32();
  record.geometry.chunk = in.u32();
  record.epoch = in.u64();
  const std::uint32_t member = in.u32();
  const std::uint32_t unused = in.u32();
  if (in.u64() != XXH64(bytes.data(), bytes.size() - 8, 0)) return corrupt();
  if (version > kVersion) return fail(Errc::kNotSupported, "a group record of a later version");
  if (version == 0 || !record.geometry.valid() || unused != 0) return corrupt();
  if (member != kNobody && member >= record.geometry.members) return corrupt();
  record.out = member == kNobody ? -1 : static_cast<int>(member);
  return record;
}

}  // namespace weft::ds
