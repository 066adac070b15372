// The fencing log's format: <store>/fences.
//
//   header   16 bytes "weft fences 1\n" and two zero bytes
//   frame    u32 0x57464e43 | u32 count (1..1024) | count entries | u64 XXH64 of the frame before
//   it entry    u32 kind (1 object, 2 client) | u32 epoch | u64 fileid or client id |
//            u32 generation or 0 | u32 fsid or 0
//
// Big-endian. A frame is what one fencing request appended, and is synced before the request is
// answered: only the last frame can be torn, and then nobody was told of it.
//
// Threading: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "layout/object_id.h"
#include "rpc/base/error.h"

namespace weft::ds {

// Handles below `epoch`, of an object or of a client, are not honoured.
struct Fence {
  std::variant<layout::ObjectId, std::uint64_t> whom;  // an object, or a client id
  std::uint32_t epoch = 0;
  friend bool operator==(const Fence&, const Fence&) = default;
};

constexpr std::size_t kFencesInFrame = 1024;

struct FenceLog {
  std::vector<Fence> fences;   // in the order they were written
  std::size_t good_bytes = 0;  // what follows is a torn frame
};

[[nodiscard]] std::vector<std::byte> fence_log_header();
// As many frames as it takes.
[[nodiscard]] std::vector<std::byte> encode_fences(std::span<const Fence> fences);
// kCorrupt when bytes that had been synced do not hold: a bad header, or a bad frame with good
// ones after it or with more behind it than one torn frame could be.
[[nodiscard]] Result<FenceLog> decode_fence_log(std::span<const std::byte> bytes);

}  // namespace weft::ds
