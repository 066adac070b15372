// A strip: 64 KiB of an object, at a multiple of that. What is grouped is strips, not objects: of a
// large file a program may read a part only, in an order of its own.
//
// Threading: plain values.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <vector>

#include "layout/object_id.h"

namespace weft::ds {

constexpr std::uint64_t kStrip = std::uint64_t{64} << 10;
// What a segment holds at most: 16 MiB.
constexpr std::size_t kStripsInSegment = 256;
// What of a segment comes from the disk at once, 1 MiB, has a checksum of its own, and answers
// reads as soon as it is there.
constexpr std::size_t kStripsInPiece = 16;
constexpr std::uint64_t kPiece = kStripsInPiece * kStrip;
constexpr std::size_t kMostPieces = kStripsInSegment / kStripsInPiece;
constexpr std::size_t pieces_of(std::size_t strips) {
  return (strips + kStripsInPiece - 1) / kStripsInPiece;
}

struct Strip {
  layout::ObjectId object;
  std::uint64_t index = 0;  // it begins at index * kStrip
  friend auto operator<=>(const Strip&, const Strip&) = default;
};

// Strips that are read one after another, in about that order.
using StripGroup = std::vector<Strip>;

}  // namespace weft::ds

template <>
struct std::hash<weft::ds::Strip> {
  std::size_t operator()(const weft::ds::Strip& strip) const noexcept {
    const std::size_t h = std::hash<weft::layout::ObjectId>{}(strip.object) ^
                          (strip.index + 1) * std::size_t{0xD6E8FEB86659FD93ULL};
    return h ^ h >> 32;
  }
};
