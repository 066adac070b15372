// A file as Ganesha sees it: fsal_obj_handle with our file number in it.
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
// Exports of one store share handles: Ganesha's cache finds a handle by its key, whichever export
// it was made through, and keeps it while any of them is there. So a handle knows nothing of an
// export: an operation's export is this_export() (export.h).
//
// Ownership: Ganesha's cache owns handles; release() deletes one, possibly after the last export
// and its store are gone. A handle holds no lock and no file. What belongs to the file and not to
// the handle is in OpenFile.
#pragma once

#include "ganesha-fsal/glue/ganesha.h"
#include "ganesha-fsal/glue/open_files.h"
#include "ganesha-fsal/meta/schema/types.h"
#include "layout/handle.h"
#include "rpc/base/error.h"

namespace weft::mds {

struct Export;

constexpr std::size_t kWireHandleBytes = 24;
using WireHandle = std::array<std::byte, kWireHandleBytes>;
constexpr std::size_t kHandleSealBytes = 8;
using HandleSeal = std::array<std::byte, kHandleSealBytes>;

struct Handle : fsal_obj_handle {
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
[[nodiscard]] HandleSeal seal_for(FileId top, std::span<const std::byte, kWireHandleBytes> wire,
                                  const layout::HandleKey& key);
// kBadHandle for what make_wire_handle cannot have made. A seal after it is left to the caller.
[[nodiscard]] Result<WireParts> parse_wire_handle(std::span<const std::byte> bytes);

// A new handle for Ganesha's cache to own.
[[nodiscard]] Handle* make_handle(Export& through, const InodeAttributes& attributes);
void destroy_handle(Handle* handle);

[[nodiscard]] inline Handle& of(fsal_obj_handle* handle) { return *static_cast<Handle*>(handle); }
[[nodiscard]] inline const Handle& of(const fsal_obj_handle* handle) {
  return *static_cast<const Handle*>(handle);
}

}  // namespace weft::mds
