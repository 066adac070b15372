// The index of the segments there are, as it is on disk.
//
//   u32 0x57534758 | u32 version 2 | u64 next number | u32 count | count segments |
//   u64 XXH64 of all before
//   segment  u64 number | u32 strips (1..256) | strips | u64 XXH64 of each MiB of its bytes
//   strip    u64 fileid | u32 generation | u32 fsid | u64 index | u32 bytes (1..65536)
//
// Big-endian (small_record.h). Numbers ascend, are not 0 and below the next number, and no strip is
// in two segments. A segment is there only if its file is, too: what is removed needs no new index.
// Version 1 had one checksum for each segment; it is not read, and its segments are removed.
//
// Threading: pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "dataserver/segments/strip.h"
#include "rpc/base/error.h"

namespace weft::ds {

struct SegmentStrip {
  Strip strip;
  std::uint32_t bytes = 0;  // less than a strip at the object's end
  friend bool operator==(const SegmentStrip&, const SegmentStrip&) = default;
};

struct SegmentRecord {
  std::uint64_t number = 0;  // of its file; never used again
  std::vector<SegmentStrip> strips;
  std::vector<std::uint64_t> sums;  // XXH64 of each of its pieces
  friend bool operator==(const SegmentRecord&, const SegmentRecord&) = default;
};

struct SegmentIndex {
  std::uint64_t next_number = 1;
  std::vector<SegmentRecord> segments;
  friend bool operator==(const SegmentIndex&, const SegmentIndex&) = default;
};

[[nodiscard]] std::vector<std::byte> encode(const SegmentIndex& index);
// kCorrupt, kNotSupported: see open_record().
[[nodiscard]] Result<SegmentIndex> decode_segment_index(std::span<const std::byte> bytes);

}  // namespace weft::ds
