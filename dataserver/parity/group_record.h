// The group record: which members of a parity group may be read. File `parity` of the data
// server's folder, replaced as a whole.
//
//   u32 0x57504752 | u32 version 1 | u32 members | u32 chunk bytes | u64 epoch |
//   u32 member that is out, or 0xffffffff | u32 0 | u64 XXH64 of all before
//
// Big-endian. The epoch counts changes of the rest. A member is out from before the first write
// that is answered without it until everything that it missed has been written to it: what it holds
// meanwhile is read by nobody.
//
// Threading: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dataserver/parity/geometry.h"
#include "rpc/base/error.h"

namespace weft::ds {

struct GroupRecord {
  static constexpr std::size_t kBytes = 40;
  ParityGeometry geometry;
  std::uint64_t epoch = 0;
  int out = -1;  // a member; -1: all are in
};

[[nodiscard]] std::vector<std::byte> encode(const GroupRecord& record);
// kCorrupt for anything encode() cannot have made; kNotSupported for a later version.
[[nodiscard]] Result<GroupRecord> decode_group_record(std::span<const std::byte> bytes);

}  // namespace weft::ds
