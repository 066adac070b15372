// The name of an object: what a data server stores for one file.
//
// An object is a sparse file at file offsets. Its name is computed from the file (file number and
// generation), never allocated, so that creating a file costs no message to any data server: the
// same ObjectId names this file's part on every data server of its layout.
//
// Threading: plain values.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace weft::layout {

struct ObjectId {
  std::uint64_t fileid = 0;      // the file's inode number, never reused within a cluster
  std::uint32_t generation = 0;  // starts at 1; a change makes a new object (a restriped copy)
  std::uint32_t fsid = 0;        // which export's name space the file belongs to

  friend auto operator<=>(const ObjectId&, const ObjectId&) = default;
};
template <class Io>
void describe(Io& io, ObjectId& r) {
  io("fileid", r.fileid);
  io("generation", r.generation);
  io("fsid", r.fsid);
}

// "3.00000000000001a4.1": fsid, fileid, generation in hex; what file names and logs use.
[[nodiscard]] std::string to_string(const ObjectId& id);
// Nothing for a text that to_string() cannot have made.
[[nodiscard]] std::optional<ObjectId> parse_object_id(std::string_view text);

}  // namespace weft::layout

template <>
struct std::hash<weft::layout::ObjectId> {
  std::size_t operator()(const weft::layout::ObjectId& id) const noexcept {
    std::uint64_t h = id.fileid * 0x9E3779B97F4A7C15ULL;
    h ^= (std::uint64_t{id.generation} << 32 | id.fsid) * 0xC2B2AE3D27D4EB4FULL;
    return static_cast<std::size_t>(h ^ h >> 29);
  }
};
