// The layout map: where a file's bytes are, as the metadata server keeps it durably.
//
// It names data servers by their ids, never by address or device: those are looked up when a layout
// is granted. It is made before the first byte goes to one; a copy's state and moves change it.
//
// The map holds one to sixteen copies, each over its own data servers in stripe order: the servers
// of one stripe, one of each copy, are a mirror group. No server is in a map twice, since an object
// at a server is one stripe's part of one copy (truncation and repair count on it).
//
// Every server of every copy has a state:
//
//   current     holds every acknowledged byte of its stripes; written and read
//   stale       misses some; neither written nor read until repair begins
//   resyncing   is being repaired: written, so that it falls behind no further, and not read
//   vacant      there is none: data server id 0. Only of a copy that is filled to take another
//               server's place (layout/relocation.h), at the stripes that stay where they are
//
// Durable form: XDR. u32 format (2, or 3 when a place is vacant) | u32 layout type | u32 stripe
// unit | u32 object generation | u32 object epoch | u32 duplication | u32 read policy | copies<16>
// of { u32 first index | u32 ds ids<256> | u32 states<256>: none when all are current, one for all,
// or one for each } | opaque reasons<256> | u32 skipped ds id | u32 skipped for. Every copy has the
// same number of servers and the same first index; there is a reason for each server of the first
// copies, or none. Nothing may follow.
//
// Threading: plain values and pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "layout/handle.h"
#include "layout/member_choice.h"
#include "layout/object_id.h"
#include "layout/striping.h"
#include "rpc/base/error.h"

namespace weft::layout {

// The protocol's layouttype4, of those we know.
enum class LayoutType : std::uint32_t { kFiles = 1, kFlexFiles = 4 };

enum class CopyState : std::uint32_t { kCurrent = 0, kStale = 1, kResyncing = 2, kVacant = 3 };

[[nodiscard]] std::string_view to_string(CopyState state);

// Whether read layouts use one copy or all of them.
enum class ReadPolicy : std::uint32_t {
  kOneCopy = 0,
  kAllCopies = 1,  // each in turn: half the bytes from each of two copies
};

struct Copy {
  CopyState state = CopyState::kCurrent;  // the worst of its servers' states
  std::uint32_t first_index = 0;          // where in ds_ids the file's first stripe unit is
  std::vector<std::uint32_t> ds_ids;      // data server ids, in stripe order; 0: vacant
  std::vector<CopyState> states;          // of each of ds_ids; empty: all are `state`

  // Precondition: server < ds_ids.size().
  [[nodiscard]] CopyState state_of(std::size_t server) const {
    return states.empty() ? state : states[server];
  }
  void set_state(std::size_t server, CopyState to);
  // Whether a data server is there at all.
  [[nodiscard]] bool holds(std::size_t server) const {
    return state_of(server) != CopyState::kVacant;
  }

  friend bool operator==(const Copy&, const Copy&) = default;
};

constexpr std::size_t kMaxCopies = 16;  // the Linux client's limit for mirrors that are written

// Why the map is as it is, for people (`weft layout show`).
struct Placed {
  // Of each server of copies[0] why it leads there; then, of each further copy that was placed, why
  // it is at each of its servers. Empty: not recorded.
  std::vector<Reason> reasons;
  std::uint32_t skipped_ds = 0;  // the first server of a group left out for its load; 0: none
  Reason skipped_for = Reason::kUnknown;

  friend bool operator==(const Placed&, const Placed&) = default;
};

struct LayoutMap {
  LayoutType type = LayoutType::kFiles;
  std::uint32_t stripe_unit = 0;        // bytes
  std::uint32_t object_generation = 1;  // of the file's ObjectId; moved files get a new one
  std::uint32_t object_epoch = 1;       // handles sealed with less are fenced off
  std::vector<Copy> copies;
  Duplication duplication = Duplication::kNone;  // how writes reach the other copies
  ReadPolicy reads = ReadPolicy::kOneCopy;
  Placed placed;

  [[nodiscard]] ObjectId object(std::uint32_t fsid, std::uint64_t fileid) const {
    return {fileid, object_generation, fsid};
  }
  // Why a copy's server was chosen; kUnknown when that is not recorded.
  [[nodiscard]] Reason reason_of(std::size_t copy, std::size_t server) const;
  void set_reason(std::size_t copy, std::size_t server, Reason reason);
  // The striping of copies[copy]. Precondition: the map is valid and has that copy.
  [[nodiscard]] Striping striping(std::size_t copy = 0) const;

  friend bool operator==(const LayoutMap&, const LayoutMap&) = default;
};

// kInvalid naming what is wrong.
[[nodiscard]] Result<> validate(const LayoutMap& map);

// Precondition: validate(map).
[[nodiscard]] std::string encode_layout_map(const LayoutMap& map);
// kCorrupt for anything encode_layout_map cannot have made; kNotSupported for another format.
[[nodiscard]] Result<LayoutMap> decode_layout_map(std::span<const std::byte> bytes);
[[nodiscard]] Result<LayoutMap> decode_layout_map(std::string_view bytes);

}  // namespace weft::layout
