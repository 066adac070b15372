// The layout map: where a file's bytes are, as the metadata server keeps it durably.
//
// It names data servers by their ids, never by address or device: those are looked up when a layout
// is granted. A map is made when a file is created and changes only when the file is moved.
//
// The map holds a list of copies, each over its own data servers in stripe order. There is one
// copy today. Mirroring adds copies and uses their states; the durable form has both already.
//
// Durable form: XDR. u32 format (1) | u32 layout type | u32 stripe unit | u32 object generation |
// u32 object epoch | copies<16> of { u32 state | u32 first index | u32 ds ids<256> }. Every copy
// has the same number of servers. Nothing may follow.
//
// Threading: plain values and pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "layout/object_id.h"
#include "layout/striping.h"
#include "rpc/base/error.h"

namespace weft::layout {

// The protocol's layouttype4, of those we know.
enum class LayoutType : std::uint32_t { kFiles = 1, kFlexFiles = 4 };

enum class CopyState : std::uint32_t {
  kCurrent = 0,  // holds every acknowledged byte
  kStale = 1,    // misses some: never read from until made equal again
};

struct Copy {
  CopyState state = CopyState::kCurrent;
  std::uint32_t first_index = 0;      // where in ds_ids the file's first stripe unit is
  std::vector<std::uint32_t> ds_ids;  // data server ids, in stripe order, each at most once

  friend bool operator==(const Copy&, const Copy&) = default;
};

constexpr std::size_t kMaxCopies = 16;  // the Linux client's limit for mirrors that are written

struct LayoutMap {
  LayoutType type = LayoutType::kFiles;
  std::uint32_t stripe_unit = 0;        // bytes
  std::uint32_t object_generation = 1;  // of the file's ObjectId; moved files get a new one
  std::uint32_t object_epoch = 1;       // handles sealed with less are fenced off
  std::vector<Copy> copies;

  [[nodiscard]] ObjectId object(std::uint32_t fsid, std::uint64_t fileid) const {
    return {fileid, object_generation, fsid};
  }
  // The striping of copies[copy]. Precondition: the map is valid and has that copy.
  [[nodiscard]] Striping striping(std::size_t copy = 0) const;

  friend bool operator==(const LayoutMap&, const LayoutMap&) = default;
};

// kInvalid naming what is wrong.
[[nodiscard]] Result<> validate(const LayoutMap& map);

// Precondition: validate(map).
[[nodiscard]] std::string encode_layout_map(const LayoutMap& map);
// kCorrupt for anything encode_layout_map cannot have made; kNotSupported for a later format.
[[nodiscard]] Result<LayoutMap> decode_layout_map(std::span<const std::byte> bytes);
[[nodiscard]] Result<LayoutMap> decode_layout_map(std::string_view bytes);

}  // namespace weft::layout
