// Where the bytes of an object are in a parity group: rotated single parity (left-symmetric).
//
// An object is cut into stripes of (members - 1) chunks. Chunk k of a stripe is at one member, the
// parity of them all at another, which is the one before with each stripe. Every chunk of stripe s,
// data or parity, is at byte s * chunk of its member's data object. So the same byte range of all
// members' data objects is a set of whole rows, and the XOR of a row over all members is zero. With
// two members the parity of a chunk is the chunk: a mirror.
//
// Threading: values and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::ds {

constexpr std::size_t kParityBlock = 4096;  // what a checksum is of
constexpr std::uint64_t kSumBytes = 8;
constexpr std::uint64_t kSumsAt = 4096;  // in a member's object of checksums, behind its header
constexpr unsigned kMinMembers = 2;
constexpr unsigned kMaxMembers = 32;
constexpr std::uint32_t kMinChunk = 4096;
constexpr std::uint32_t kMaxChunk = std::uint32_t{1} << 20;

struct ParityGeometry {
  unsigned members = kMinMembers;
  std::uint32_t chunk = std::uint32_t{64} << 10;  // a power of two

  [[nodiscard]] bool valid() const {
    return members >= kMinMembers && members <= kMaxMembers && chunk >= kMinChunk &&
           chunk <= kMaxChunk && (chunk & (chunk - 1)) == 0;
  }
  // Data bytes of a stripe.
  [[nodiscard]] std::uint64_t width() const { return std::uint64_t{members - 1} * chunk; }
  [[nodiscard]] std::uint64_t stripe_of(std::uint64_t offset) const { return offset / width(); }
  // Stripes that an object of this size has.
  [[nodiscard]] std::uint64_t stripes(std::uint64_t size) const {
    return size / width() + (size % width() != 0 ? 1 : 0);
  }
  [[nodiscard]] std::uint64_t blocks_in_chunk() const { return chunk / kParityBlock; }
  [[nodiscard]] unsigned parity_member(std::uint64_t stripe) const {
    return members - 1 - static_cast<unsigned>(stripe % members);
  }
  [[nodiscard]] unsigned data_member(std::uint64_t stripe, unsigned k) const {
    return (parity_member(stripe) + 1 + k) % members;
  }
  // Which chunk of the stripe is at this member: members - 1 for the parity.
  [[nodiscard]] unsigned chunk_at(std::uint64_t stripe, unsigned member) const {
    return (member + members - parity_member(stripe) - 1) % members;
  }
  // The object's byte that is at byte `offset` of a member's data object. Not of parity.
  [[nodiscard]] std::uint64_t logical(unsigned member, std::uint64_t offset) const {
    const std::uint64_t stripe = offset / chunk;
    return stripe * width() + std::uint64_t{chunk_at(stripe, member)} * chunk + offset % chunk;
  }
};

}  // namespace weft::ds
