// The group record: which members of a parity group may be read. File `parity` of the data
// server's folder, replaced as a whole.
//
//   u32 0x57504752 | u32 version 3 | u32 members | u32 chunk bytes | u64 epoch |
//   u32 member that is out, or 0xffffffff | u32 flags: 1 it lacks everything, 2 it was given up |
//   u64 objects that it has got | u32 folder | u32 0 | object | u64 blocks given up |
//   u64 XXH64 of all before
//
// Version 2 is read too: it has no flag 2 and no blocks given up.
//
// object: u64 fileid | u32 generation | u32 fsid. Folder and object are the place (ListPlace) up to
// which a member that lacked everything has got it; zeros otherwise. Big-endian. The epoch counts
// changes of the rest. A member is out from before the first write that is answered without it
// until everything that it missed has been written to it: what it holds meanwhile is read by
// nobody. One that was given up has the last of some blocks, which nobody will know (blocks.h):
// they count as lost also if it comes back. How many that were is remembered until a scrub finds
// none.
//
// Threading: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dataserver/parity/geometry.h"
#include "dataserver/store/store.h"
#include "rpc/base/error.h"

namespace weft::ds {

struct GroupRecord {
  static constexpr std::size_t kBytes = 80;
  static constexpr std::size_t kBytes2 = 72;  // of version 2
  ParityGeometry geometry;
  std::uint64_t epoch = 0;
  int out = -1;             // a member; -1: all are in
  bool everything = false;  // it is a new store, and lacks all but what these say:
  std::uint64_t done = 0;
  ListPlace place;
  bool lost = false;           // the member was given up
  std::uint64_t given_up = 0;  // blocks
};

[[nodiscard]] std::vector<std::byte> encode(const GroupRecord& record);
// kCorrupt for anything encode() cannot have made; kNotSupported for another version.
[[nodiscard]] Result<GroupRecord> decode_group_record(std::span<const std::byte> bytes);

}  // namespace weft::ds
