// A file as Ganesha sees it: fsal_obj_handle with our file number in it.
//
// Wire form, host form and cache key are the same 24 bytes, big-endian: u8 version (1), 3 zero
// bytes, u32 fsid, u64 fileid, u64 store. File numbers are never reused within a store, so nothing
// else is needed for a handle to stay good over restarts, and never to mean another file; `store`
// (from the store's uuid) makes handles of a store that was made anew stale.
//
// Ownership: Ganesha's cache owns handles; release() deletes one. A handle holds no lock and no
// file. What belongs to the file and not to the handle is in OpenFile.
#pragma once

#include "ganesha-fsal/fsal/ganesha.h"
#include "ganesha-fsal/fsal/open_files.h"
#include "ganesha-fsal/meta/types.h"
#include "rpc/base/error.h"

namespace weft::mds {

struct Export;

constexpr std::size_t kWireHandleBytes = 24;
using WireHandle = std::array<std::byte, kWireHandleBytes>;

struct Handle : fsal_obj_handle {
  Export* owner = nullptr;
  FileId file = 0;
  WireHandle wire{};
  std::shared_ptr<OpenFile> open;  // regular files only
};

[[nodiscard]] WireHandle make_wire_handle(std::uint32_t fsid, FileId file, std::uint64_t store);
struct WireParts {
  std::uint32_t fsid = 0;
  FileId file = 0;
  std::uint64_t store = 0;
};
// kBadHandle for what make_wire_handle cannot have made.
[[nodiscard]] Result<WireParts> parse_wire_handle(std::span<const std::byte> bytes);

// A new handle for Ganesha's cache to own.
[[nodiscard]] Handle* make_handle(Export& owner, const InodeAttributes& attributes);
void destroy_handle(Handle* handle);

[[nodiscard]] inline Handle& of(fsal_obj_handle* handle) { return *static_cast<Handle*>(handle); }
[[nodiscard]] inline const Handle& of(const fsal_obj_handle* handle) {
  return *static_cast<const Handle*>(handle);
}

}  // namespace weft::mds
