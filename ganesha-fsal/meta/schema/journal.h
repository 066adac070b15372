// The journal: which files may have been written without the metadata server knowing all of it, and
// which copies of a file's bytes are out of date.
//
//   J w file           WritersRecord   a layout for writing is out, or was when a server died
//   J s ds file copy   StaleRecord     a data server's part of a copy missed writes
//   J m file           MoveRecord      a data server takes another's place
//
// A WritersRecord is there before the first layout for writing is handed out, so that after a crash
// of client and metadata server together the files whose size, or whose copies, only the data
// servers know are found without looking at all of them. boot_epoch says which run of the metadata
// server made it: one of an earlier run stands for holders that nobody remembers.
//
// A StaleRecord is there before a write is acknowledged that its data server missed. Dirty extents
// are offsets in the file; the data server holds some of their stripe units. They are coarse: whole
// granules, at most kMaxDirtyExtents, the nearest joined when there would be more. So they say at
// least what is out of date, and may say more.
//
// A MoveRecord is there from when the newcomer is added to the map until the object that nobody
// needs any more is queued for removal (namespace.h, "moving"). A file has one at most.
//
// Decoding believes nothing: kCorrupt, or kNotSupported for a later version.
//
// Threading: plain values and pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ganesha-fsal/meta/schema/types.h"
#include "rpc/base/error.h"

namespace weft::mds {

constexpr std::uint64_t kDirtyGranule = 1U << 20;  // bytes
constexpr std::size_t kMaxDirtyExtents = 256;      // of one StaleRecord

// 1 or more, ascending, apart from each other. Bounds are multiples of the granule, but for an end
// at kMaxFileSize.
using DirtyExtents = std::vector<DirtyExtent>;

struct WritersRecord {
  std::uint64_t boot_epoch = 0;
  std::int64_t since_ns = 0;  // when the layout, the first of this run, was handed out

  friend bool operator==(const WritersRecord&, const WritersRecord&) = default;
};

struct StaleRecord {
  std::uint32_t generation = 0;  // of the objects, as in the layout map
  std::int64_t since_ns = 0;     // of the first write missed
  std::uint64_t ticket = 0;      // counted up with every mark, so that none is cleared unseen
  DirtyExtents dirty;

  friend bool operator==(const StaleRecord&, const StaleRecord&) = default;
};

struct MoveRecord {
  std::uint32_t generation = 0;  // of the objects, as in the layout map
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  MoveStage stage = MoveStage::kFilling;
  std::int64_t since_ns = 0;

  friend bool operator==(const MoveRecord&, const MoveRecord&) = default;
};

// Adds [offset, end) to well-formed extents. Precondition: offset < end <= kMaxFileSize.
void add_dirty(DirtyExtents& extents, DirtyExtent added);
[[nodiscard]] bool well_formed(const DirtyExtents& extents);

[[nodiscard]] std::string encode(const WritersRecord& record);
[[nodiscard]] std::string encode(const StaleRecord& record);
[[nodiscard]] std::string encode(const MoveRecord& record);
[[nodiscard]] Result<WritersRecord> decode_writers(std::string_view value);
[[nodiscard]] Result<StaleRecord> decode_stale(std::string_view value);
[[nodiscard]] Result<MoveRecord> decode_move(std::string_view value);

}  // namespace weft::mds
