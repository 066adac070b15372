// Data-server file handles: capabilities that a data server can check by itself.
//
// The metadata server seals what a client may do with one object on one data server into the
// opaque file handle of a layout; the data server opens it with the same key and believes no other
// claim. It keeps no per-open state and needs no message per open. Wire form, big-endian, 64 bytes:
//
//   u8 version (1) | u8 access | u16 key id | u32 data server id | ObjectId: u64 fileid,
//   u32 generation, u32 fsid | u64 client id | u32 object epoch | u32 client epoch |
//   u64 reserved (0) | 16 bytes MAC (SipHash-2-4-128 over the 48 bytes before it)
//
// Fencing: a data server keeps, durably, the least object epoch and the least client epoch it
// still honours; a handle below either is answered NFS4ERR_ACCESS.
//
// Threading: plain values and pure functions. The MAC compare takes the same time for any input.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "layout/object_id.h"
#include "rpc/base/error.h"

namespace weft::layout {

enum class Access : std::uint8_t {
  kRead = 1,
  kReadWrite = 3,
  kControl = 7,  // the metadata server itself (proxied I/O): not subject to client fencing
};

struct Handle {
  Access access = Access::kRead;
  std::uint16_t key_id = 0;
  std::uint32_t ds_id = 0;  // the one data server this handle is good at
  ObjectId object;
  std::uint64_t client_id = 0;  // the NFSv4.1 client id at the metadata server
  std::uint32_t object_epoch = 0;
  std::uint32_t client_epoch = 0;

  friend bool operator==(const Handle&, const Handle&) = default;
};

constexpr std::size_t kHandleBytes = 64;
using SealedHandle = std::array<std::byte, kHandleBytes>;
using HandleKey = std::array<std::byte, 16>;

[[nodiscard]] SealedHandle seal(const Handle& handle, const HandleKey& key);

// kBadHandle for a wrong length, version, reserved field, key id or MAC. Whether the handle is for
// this data server and above the fences is the caller's to check.
[[nodiscard]] Result<Handle> unseal(std::span<const std::byte> bytes, const HandleKey& key,
                                    std::uint16_t key_id);

}  // namespace weft::layout
