// The bytes of a file handle, as clients and Ganesha's cache have it.
//
// Wire form, host form and cache key are the same 24 bytes, big-endian: u8 version (1), 3 zero
// bytes, u32 fsid, u64 fileid, u64 store. File numbers are never reused within a store, so nothing
// else is needed for a handle to stay good over restarts, and never to mean another file; `store`
// (from the store's uuid) makes handles of a store that was made anew stale.
//
// An export of a directory below the root adds to the wire form, and only there, a seal of 8 bytes:
// the start of a MAC over the directory and those 24, under a key of the store's. It says that the
// file was reached through an export of that directory: numbers can be guessed, and handles of
// other exports be sent to this one.
//
// Threading: pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ganesha-fsal/meta/schema/types.h"
#include "layout/handle.h"
#include "rpc/base/error.h"

namespace weft::mds {

constexpr std::size_t kWireHandleBytes = 24;
using WireHandle = std::array<std::byte, kWireHandleBytes>;
constexpr std::size_t kHandleSealBytes = 8;
using HandleSeal = std::array<std::byte, kHandleSealBytes>;

[[nodiscard]] WireHandle make_wire_handle(std::uint32_t fsid, FileId file, std::uint64_t store);
struct WireParts {
  std::uint32_t fsid = 0;
  FileId file = 0;
  std::uint64_t store = 0;
};
// kBadHandle for what make_wire_handle cannot have made. A seal after it is left to has_seal().
[[nodiscard]] Result<WireParts> parse_wire_handle(std::span<const std::byte> bytes);

// `top` is the directory that is exported.
[[nodiscard]] HandleSeal seal_for(FileId top, std::span<const std::byte, kWireHandleBytes> wire,
                                  const layout::HandleKey& key);
// Whether these bytes are a handle and its seal.
[[nodiscard]] bool has_seal(std::span<const std::byte> bytes, FileId top,
                            const layout::HandleKey& key);

}  // namespace weft::mds
