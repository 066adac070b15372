// File contents that can be checked anywhere: every eight-byte word says where it belongs.
//
// Word i of a file written with `seed` is a mix of both, so that a byte from another offset, file,
// or generation of the file is seen at once.
//
// Threading: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace weft::load {

// The contents of bytes [offset, offset + out.size()). Precondition: offset is a multiple of 8.
void fill_pattern(std::span<std::byte> out, std::uint64_t seed, std::uint64_t offset);
// The first byte offset (in the file) that differs, to the word; nullopt when all is right.
[[nodiscard]] std::optional<std::uint64_t> check_pattern(std::span<const std::byte> bytes,
                                                         std::uint64_t seed, std::uint64_t offset);

}  // namespace weft::load
